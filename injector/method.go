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

// needs is what an access method takes of the node and the cluster: what stops one that needs it stops others too.
type needs int

const (
	_          needs = iota
	needsStart       // the API server, the kubelet, and a runtime that starts a container
	needsExec        // the API server, and a kubelet that enters a container that runs
	needsLogin       // neither: the client goes there itself
	alone            // it is no fallback: --via names it alone
)

// accessMethod is a row of the table of access methods, from which every list of them is made.
type accessMethod struct {
	name  string
	needs needs
	open  func(*Client) Open // nil where it is alone
	// a person takes it, and no program for them: it needs the person's own machine, whose keys no pod has, or a right
	// that is as good as root
	person bool
}

// accessMethods is the table. auto tries those that are not alone, in this order.
func accessMethods() []accessMethod {
	return []accessMethod{
		{name: MethodAPI, needs: alone},
		{name: MethodPod, needs: needsStart, open: byPod},
		{name: MethodEphemeral, needs: needsStart, open: byEphemeral},
		{name: MethodExec, needs: needsExec, open: byExec},
		{name: MethodSSH, needs: needsLogin, open: bySSH, person: true},
		{name: MethodNeighbour, needs: alone},
		{name: MethodKubelet, needs: alone, person: true},
		{name: MethodLocal, needs: alone, person: true},
	}
}

// namesWhere are the access methods that fit, by name.
func namesWhere(fits func(accessMethod) bool) []string {
	var out []string
	for _, m := range accessMethods() {
		if fits(m) {
			out = append(out, m.name)
		}
	}
	return out
}

// methodCalled is the row of an access method, the zero value where there is none.
func methodCalled(name string) accessMethod {
	for _, m := range accessMethods() {
		if m.name == name {
			return m
		}
	}
	return accessMethod{}
}

// MethodNames lists the access methods.
func MethodNames() []string { return namesWhere(func(accessMethod) bool { return true }) }

// FallbackNames lists the access methods that may be tried one after the other, in the order
// in which auto tries them.
func FallbackNames() []string {
	return namesWhere(func(m accessMethod) bool { return m.needs != alone })
}

// PersonNames lists the access methods that a person takes, and that no program in the cluster may.
func PersonNames() []string { return namesWhere(func(m accessMethod) bool { return m.person }) }

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
