package node

import (
	"context"
	"errors"
	"io/fs"
	"net"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
)

// Facts of the BIRD checks.
const FactSince probe.Fact = "since_s" // seconds in this state

// Daemon is one of the two BIRDs a node may run.
type Daemon struct {
	Family int
	Name   string // of its socket
}

func Daemons() []Daemon { return []Daemon{{4, "bird.ctl"}, {6, "bird6.ctl"}} }

// BirdFolders returns where the sockets are: Calico's folder, and BIRD's own, which Calico's tools try too.
func BirdFolders(h *probe.Host) []string { return []string{h.Place(probe.PlaceRun), "/run/bird"} }

// Talk opens a conversation with a daemon and gives the socket's path on the node.
func (d Daemon) Talk(ctx context.Context, h *probe.Host) (*bird.Conn, string, error) {
	var first error
	folders := BirdFolders(h)
	for _, folder := range folders {
		name := folder + "/" + d.Name
		c, err := DialBIRD(ctx, h, name)
		if err == nil {
			return c, name, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, probe.ErrNotVisible) {
			return nil, name, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, folders[0] + "/" + d.Name, first
}

// DialBIRD begins a conversation on a socket of the node's, which must be BIRD's.
func DialBIRD(ctx context.Context, h *probe.Host, name string) (*bird.Conn, error) {
	conn, err := h.Dial(ctx, name)
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return nil, op.Err // what is said of it names the socket
	}
	if err != nil {
		return nil, err
	}
	if err := listenerOnNode(h, conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return bird.Talk(ctx, conn)
}
