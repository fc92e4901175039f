package injector

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"github.com/calico-probe/calico-probe/probe"
)

// The names of the access methods, as in --via. MethodAPI puts no probe on the node; the API is read
// first in every run. MethodNeighbour asks baseline nodes about the node, through probe pods there.
// MethodKubelet puts none there either: the node's kubelet is asked, through the API server.
const (
	MethodAPI       = "api"
	MethodPod       = "pod"
	MethodEphemeral = "ephemeral"
	MethodExec      = "exec"
	MethodSSH       = "ssh"
	MethodNeighbour = probe.WayNeighbour
	MethodKubelet   = "kubelet"
	MethodLocal     = "local"
)

// Asked is who can be asked by an access method, one or several.
type Asked int

// Who is asked.
const (
	TheAPI     Asked = 1 << iota // about the node
	TheNode                      // by a probe on it
	TheKubelet                   // of the node, through the API server
	OtherNodes                   // by probes on them
)

// needs is what an access method takes of the node and the cluster: what stops one that needs it stops others too.
type needs int

const (
	_          needs = iota
	needsStart       // the API server, the kubelet, and a runtime that starts a container
	needsExec        // the API server, and a kubelet that enters a container that runs
	needsLogin       // neither: the client goes there itself
	alone            // it is no fallback: --via names it alone
)

// Access is what an access method takes and what it can do: a row of the table of access methods, from which every list
// of them is made.
type Access struct {
	name  string
	asks  Asked // which decides what checks it can answer
	needs needs
	open  func(*Client) Open // nil = it puts no probe on the node

	Pods       bool // what it creates are pods of its own, which have fewer rights than root on the node
	Stays      bool // what it creates cannot be removed from the pod that it is put into
	OwnMachine bool // it takes the user's own machine, which has the keys or is the node: no pod can use it
	AsRoot     bool // it takes a right that is as good as root on the node: for people on the command line alone
}

// accessMethods is the table. auto tries those that are not alone, in this order.
func accessMethods() []Access {
	return []Access{
		{name: MethodAPI, asks: TheAPI, needs: alone},
		{name: MethodPod, asks: usual, needs: needsStart, open: byPod, Pods: true},
		{name: MethodEphemeral, asks: usual, needs: needsStart, open: byEphemeral, Stays: true},
		{name: MethodExec, asks: usual, needs: needsExec, open: byExec},
		{name: MethodSSH, asks: usual, needs: needsLogin, open: bySSH, OwnMachine: true},
		{name: MethodNeighbour, asks: TheAPI | OtherNodes, needs: alone, Pods: true},
		{name: MethodKubelet, asks: TheAPI | TheKubelet, needs: alone, AsRoot: true},
		{name: MethodLocal, asks: TheNode, needs: alone, open: byLocal, OwnMachine: true},
	}
}

// usual is who can be asked by the access methods that differ only in how the probe reaches the node.
const usual = TheAPI | TheNode | OtherNodes

// AccessOf is the row of an access method. Of auto, and of a list of access methods, it is what they have in common.
func AccessOf(via string) Access {
	if m := methodCalled(via); m.name != "" {
		return m
	}
	return Access{asks: usual}
}

// Asks reports whether any of these can be asked.
func (a Access) Asks(any Asked) bool { return a.asks&any != 0 }

// EntersNode reports whether the node itself is asked.
func (a Access) EntersNode() bool { return a.Asks(TheNode | TheKubelet) }

// FromOutside reports whether the node is only looked at from other nodes.
func (a Access) FromOutside() bool { return a.Asks(OtherNodes) && !a.EntersNode() }

// Here reports whether the machine that this program runs on is asked, and no API.
func (a Access) Here() bool { return !a.Asks(TheAPI) }

// Creates reports whether something is put on a node.
func (a Access) Creates() bool { return a.Asks(OtherNodes) || a.Asks(TheNode) && !a.Here() }

// Alone reports whether it is no fallback, so that a run by it asks no more than it can.
func (a Access) Alone() bool { return a.needs == alone }

// namesWhere are the access methods that fit, by name.
func namesWhere(fits func(Access) bool) []string {
	var out []string
	for _, m := range accessMethods() {
		if fits(m) {
			out = append(out, m.name)
		}
	}
	return out
}

// methodCalled is the row of an access method, the zero value where there is none.
func methodCalled(name string) Access {
	for _, m := range accessMethods() {
		if m.name == name {
			return m
		}
	}
	return Access{}
}

// MethodNames lists the access methods.
func MethodNames() []string { return namesWhere(func(Access) bool { return true }) }

// FallbackNames lists the access methods that may be tried one after the other, in the order
// in which auto tries them.
func FallbackNames() []string {
	return namesWhere(func(m Access) bool { return !m.Alone() })
}

// PersonNames lists the access methods that a person takes, and that no program in the cluster may.
func PersonNames() []string {
	return namesWhere(func(m Access) bool { return m.OwnMachine || m.AsRoot })
}

// Opener is how one of FallbackNames puts a probe on a node.
func Opener(name string, c *Client) Open { return methodCalled(name).open(c) }

// Open puts a probe on a node by one access method and opens a session with it. Where the node or the
// cluster refuses that, the error is a *PlacementError.
type Open func(context.Context, Options) (*Session, error)

// Method is an access method that a Fallback may try.
type Method struct {
	Name string
	Open Open

	again bool // the second attempt, with all the time it may take
}

func (m Method) needs() needs { return methodCalled(m.Name).needs }

// NewRunID returns an ID that distinguishes runs in labels and logs.
func NewRunID() string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}
