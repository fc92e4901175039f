package injector

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"github.com/calico-probe/calico-probe/probe"
)

// The names of the access methods, as --via takes them. The API brings no probe to the node:
// it is always asked first. Baseline nodes are asked about the node, by pods of their own.
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

// Open brings a probe to a node by one access method. The error of a node or cluster that
// refuses it is a *PlacementError.
type Open func(context.Context, Options) (*Session, error)

// Method is an access method that a Fallback may try.
type Method struct {
	Name string
	Open Open

	again bool // the second attempt, with all the time it may take
}

// NewRunID returns an ID that tells runs apart in labels and logs.
func NewRunID() string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}
