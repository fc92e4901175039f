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
const FactSince probe.Fact = "since_s" // number of seconds in this state

// Daemon is one of the two BIRD daemons that a node may run.
type Daemon struct {
	Family int
	Name   string // the name of the daemon's socket
}

func Daemons() []Daemon { return []Daemon{{4, "bird.ctl"}, {6, "bird6.ctl"}} }

// BirdFolders returns the folders that may contain the sockets: Calico's folder, and BIRD's default
// folder, which Calico's tools also try.
func BirdFolders(h *probe.Host) []string { return []string{h.Place(probe.PlaceRun), "/run/bird"} }

// Talk opens a session with a daemon. It also returns the path of the daemon's socket on the node.
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

// DialBIRD opens a session on a socket of the node. The process behind the socket must be BIRD.
func DialBIRD(ctx context.Context, h *probe.Host, name string) (*bird.Conn, error) {
	conn, err := h.Dial(ctx, name)
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return nil, op.Err // callers add the name of the socket
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
