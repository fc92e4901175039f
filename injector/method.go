package injector

import (
	"context"
	"crypto/rand"
	"encoding/hex"
)

// The names of the access methods, as in --via. MethodAPI puts no probe on the node: every run reads the API first.
// MethodOutside tests the node from baseline nodes, by probe pods there. MethodKubelet puts no probe there either:
// it queries the node's kubelet through the API server.
const (
	MethodAPI       = "api"
	MethodPod       = "pod"
	MethodEphemeral = "ephemeral"
	MethodExec      = "exec"
	MethodSSH       = "ssh"
	MethodOutside   = "outside"
	MethodKubelet   = "kubelet"
	MethodLocal     = "local"
)

// Scope is what an access method can query, a set of bits.
type Scope int

// The objects of queries.
const (
	TheAPI     Scope = 1 << iota // about the node
	TheNode                      // by a probe on it
	TheKubelet                   // of the node, through the API server
	OtherNodes                   // by probes on them
)

// needs is what an access method requires of the node and the cluster: what stops one method stops others with that
// need.
type needs int

const (
	_          needs = iota
	needsStart       // the API server, the kubelet, and a runtime that starts a container
	needsExec        // the API server, and a kubelet that enters a container that runs
	needsLogin       // no API server and no kubelet: the client connects itself
	alone            // not a fallback: --via must name it alone
)

// Access describes an access method: its needs and abilities. It is a row of the table from which all lists of access
// methods derive.
type Access struct {
	name  string
	scope Scope // decides which checks it can answer
	needs needs
	open  func(*Client) Open // nil = no probe on the node

	Pods       bool // it creates separate pods, which have fewer rights than root on the node
	Stays      bool // its addition to a pod cannot be removed
	OwnMachine bool // it needs the user's own machine, which has the keys or is the node: no pod can use it
	AsRoot     bool // it needs a permission equal to root on the node: only for people on the command line
}

// accessMethods is the table. auto tries those that are not alone, in this order.
func accessMethods() []Access {
	return []Access{
		{name: MethodAPI, scope: TheAPI, needs: alone},
		{name: MethodPod, scope: usual, needs: needsStart, open: byPod, Pods: true},
		{name: MethodEphemeral, scope: usual, needs: needsStart, open: byEphemeral, Stays: true},
		{name: MethodExec, scope: usual, needs: needsExec, open: byExec},
		{name: MethodSSH, scope: usual, needs: needsLogin, open: bySSH, OwnMachine: true},
		{name: MethodOutside, scope: TheAPI | OtherNodes, needs: alone, Pods: true},
		{name: MethodKubelet, scope: TheAPI | TheKubelet, needs: alone, AsRoot: true},
		{name: MethodLocal, scope: TheNode, needs: alone, open: byLocal, OwnMachine: true},
	}
}

// usual is what most access methods can query: they differ only in how the probe reaches the node.
const usual = TheAPI | TheNode | OtherNodes

// AccessOf returns the row of an access method. For auto, and for a list of access methods, it returns what they
// share.
func AccessOf(via string) Access {
	if m := methodCalled(via); m.name != "" {
		return m
	}
	return Access{scope: usual}
}

// Covers reports whether it can query any of these.
func (a Access) Covers(any Scope) bool { return a.scope&any != 0 }

// EntersNode reports whether it queries the node itself.
func (a Access) EntersNode() bool { return a.Covers(TheNode | TheKubelet) }

// FromOutside reports whether it tests the node only from other nodes.
func (a Access) FromOutside() bool { return a.Covers(OtherNodes) && !a.EntersNode() }

// Here reports whether it checks the machine that this program runs on, and uses no API.
func (a Access) Here() bool { return !a.Covers(TheAPI) }

// Creates reports whether it puts something on a node.
func (a Access) Creates() bool { return a.Covers(OtherNodes) || a.Covers(TheNode) && !a.Here() }

// Alone reports whether it is not a fallback: a run with it includes only the checks that it can answer.
func (a Access) Alone() bool { return a.needs == alone }

// namesWhere returns the names of the access methods that fit.
func namesWhere(fits func(Access) bool) []string {
	var out []string
	for _, m := range accessMethods() {
		if fits(m) {
			out = append(out, m.name)
		}
	}
	return out
}

// methodCalled returns the row of an access method, the zero value if unknown.
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

// FallbackNames lists the access methods that may be tried in turn, in auto's order.
func FallbackNames() []string {
	return namesWhere(func(m Access) bool { return !m.Alone() })
}

// PersonNames lists the access methods that only people may use, and no program in the cluster.
func PersonNames() []string {
	return namesWhere(func(m Access) bool { return m.OwnMachine || m.AsRoot })
}

// Opener returns the Open of one of FallbackNames.
func Opener(name string, c *Client) Open { return methodCalled(name).open(c) }

// Open puts a probe on a node by one access method and opens a session with it. If the node or the cluster refuses,
// the error is a *PlacementError.
type Open func(context.Context, Options) (*Session, error)

// Method is an access method that a Fallback may try.
type Method struct {
	Name string
	Open Open

	again bool // the second attempt, with the full time limit
}

func (m Method) needs() needs { return methodCalled(m.Name).needs }

// NewRunID returns an ID that distinguishes runs in labels and logs.
func NewRunID() string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}
