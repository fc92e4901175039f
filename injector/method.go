package injector

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"github.com/calico-probe/calico-probe/probe"
)

// The names of the access methods, as in --via. MethodAPI puts no probe on the node; the API is read
// first in every run. MethodNeighbour asks baseline nodes about the node, through probe pods there.
const (
	MethodAPI       = "api"
	MethodPod       = "pod"
	MethodEphemeral = "ephemeral"
	MethodExec      = "exec"
	MethodSSH       = "ssh"
	MethodNeighbour = probe.WayNeighbour
	MethodLocal     = "local"
)

// MethodNames lists the access methods.
func MethodNames() []string {
	return []string{MethodAPI, MethodPod, MethodEphemeral, MethodExec, MethodSSH, MethodNeighbour, MethodLocal}
}

// FallbackNames lists the access methods that may be tried one after the other, in the order
// in which auto tries them.
func FallbackNames() []string { return []string{MethodPod, MethodEphemeral, MethodExec, MethodSSH} }

// Open puts a probe on a node by one access method and opens a session with it. Where the node or the
// cluster refuses that, the error is a *PlacementError.
type Open func(context.Context, Options) (*Session, error)

// Method is an access method that a Fallback may try.
type Method struct {
	Name string
	Open Open

	again bool // the second attempt, with all the time it may take
}

// NewRunID returns an ID that distinguishes runs in labels and logs.
func NewRunID() string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}
