package injector

import (
	"context"
	"crypto/rand"
	"encoding/hex"
)

// The names of the access methods, as in --via. MethodAPI puts no probe on the node: every run reads the API first.
// MethodOutside tests the node from probe pods on baseline nodes. MethodKubelet puts no probe on the node: it queries
// the node's kubelet through the API server.
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

// Scope is a bit set of what an access method can query.
type Scope int

// What an access method can query.
const (
	TheAPI     Scope = 1 << iota // the API, about the node
	TheNode                      // the node, by a probe on it
	TheKubelet                   // the node's kubelet, through the API server
	OtherNodes                   // other nodes, by probes on them
)

// needs lists what an access method requires from the node and the cluster. If one method fails, other methods with the
// same needs are not tried.
type needs int

const (
	_          needs = iota
	needsStart       // the API server, the kubelet, and a runtime that starts a container
	needsExec        // the API server, and a kubelet that can enter a running container
	needsLogin       // neither API server nor kubelet: the client connects directly
	alone            // not a fallback: --via must name this method alone
)

// Access describes an access method: its needs and abilities. It is a row of the table from which all lists of access
// methods derive.
type Access struct {
	name  string
	scope Scope // decides which checks the method can answer
	needs needs
	open  func(*Client) Open // nil = no probe on the node

	Pods       bool // creates separate pods, which have fewer rights than root on the node
	Stays      bool // cannot remove its addition to a pod
	OwnMachine bool // needs the user's machine, which has the keys or is the node: does not work in pods
	AsRoot     bool // needs a permission equal to root on the node: only for people on the command line
}

// accessMethods returns the table. auto tries the fallbacks, which are the methods without alone, in this order.
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

// usual is the scope of most access methods, which differ only in how the probe reaches the node.
const usual = TheAPI | TheNode | OtherNodes

// AccessOf returns the row of an access method. For auto and for a list, it returns the properties that all their
// access methods share.
func AccessOf(via string) Access {
	if m := methodCalled(via); m.name != "" {
		return m
	}
	return Access{scope: usual}
}

// Covers reports whether the method can query anything in the given scope.
func (a Access) Covers(any Scope) bool { return a.scope&any != 0 }

// EntersNode reports whether the method queries the node itself.
func (a Access) EntersNode() bool { return a.Covers(TheNode | TheKubelet) }

// FromOutside reports whether the method tests the node only from other nodes.
func (a Access) FromOutside() bool { return a.Covers(OtherNodes) && !a.EntersNode() }

// Here reports whether the method checks the machine that runs this program, without the API.
func (a Access) Here() bool { return !a.Covers(TheAPI) }

// Creates reports whether the method creates something on a node.
func (a Access) Creates() bool { return a.Covers(OtherNodes) || a.Covers(TheNode) && !a.Here() }

// Alone reports whether the method is not a fallback. A run with such a method includes only the checks that the method
// can answer.
func (a Access) Alone() bool { return a.needs == alone }

// namesWhere returns the names of the matching access methods.
func namesWhere(fits func(Access) bool) []string {
	var out []string
	for _, m := range accessMethods() {
		if fits(m) {
			out = append(out, m.name)
		}
	}
	return out
}

// methodCalled returns the row of an access method, or the zero value.
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

// FallbackNames lists the fallback access methods in the order of auto.
func FallbackNames() []string {
	return namesWhere(func(m Access) bool { return !m.Alone() })
}

// PersonNames lists the access methods that people may use, but programs in the cluster may not.
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

	again bool // this is the second attempt, with the full time limit
}

func (m Method) needs() needs { return methodCalled(m.Name).needs }

// NewRunID returns an ID that distinguishes runs in labels and logs.
func NewRunID() string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}
