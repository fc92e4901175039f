package checks

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
)

// Facts of the BIRD checks.
const (
	FactVersion   probe.Fact = "version"      // of BIRD
	FactRouterID  probe.Fact = "router_id"    // of BIRD
	FactPeer      probe.Fact = "peer"         // address
	FactProtocol  probe.Fact = "protocol"     // BIRD's name for the session
	FactState     probe.Fact = "state"        // of the protocol: up, start, ...
	FactBGPState  probe.Fact = "bgp_state"    // Established, Active, Passive, ...
	FactSince     probe.Fact = "since_s"      // seconds in this state
	FactLastError probe.Fact = "last_error"   // BIRD's words
	FactHold      probe.Fact = "hold_s"       // seconds of silence after which the session ends
	FactHoldLeft  probe.Fact = "hold_left_s"  // seconds that are left of these
	FactImported  probe.Fact = "imported"     // routes taken from the peer
	FactExported  probe.Fact = "exported"     // routes given to the peer
	FactSource    probe.Fact = "source"       // address this side uses
	FactWaiting   probe.Fact = "waiting"      // protocols a graceful restart waits for
	FactWaitLeft  probe.Fact = "wait_left_s"  // seconds it waits at most
	FactBlockers  probe.Fact = "blockers"     // of these the peers, the first ten addresses
	FactPeerCount probe.Fact = "peers"        // BGP protocols there are
	FactUpCount   probe.Fact = "established"  // of these, established
	FactASNumber  probe.Fact = "neighbour_as" // the peer's AS number

	FactKernelState probe.Fact = "kernel_state" // of the protocol that writes routes into the kernel
)

// daemon is one of the two BIRDs a node may run.
type daemon struct {
	family int
	name   string // of its socket
}

func daemons() []daemon { return []daemon{{4, "bird.ctl"}, {6, "bird6.ctl"}} }

// birdFolders returns where the sockets are: Calico's folder, and BIRD's own, which Calico's tools try too.
func birdFolders(h *probe.Host) []string { return []string{h.Place(probe.PlaceRun), "/run/bird"} }

// talk opens a conversation with a daemon and gives the socket's path on the node.
func (d daemon) talk(ctx context.Context, h *probe.Host) (*bird.Conn, string, error) {
	var first error
	folders := birdFolders(h)
	for _, folder := range folders {
		name := folder + "/" + d.name
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
	return nil, folders[0] + "/" + d.name, first
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

// judgeDead judges an error of talking to BIRD, after at most the limit.
func judgeDead(d daemon, p *probe.Pass, limit time.Duration, err error) probe.Result {
	reason := probe.Reason(err)
	r := probe.Failed(err)
	switch {
	case errors.Is(err, probe.ErrNotVisible):
		return probe.Found(probe.Skip, "%v", err)
	case reason != "missing" && runsNoBIRD(p): // the folder outlives calico-node, until the node boots
		return probe.Found(probe.Skip, "Calico's networking backend here is %s, which runs no BIRD; the socket is left over from before", named(p, probe.KindBackend))
	case reason == "missing":
		r = judgeMissing(d, p)
	case reason == "refused":
		r = probe.Found(probe.Fail, "the socket exists but nothing listens: BIRD is dead or restarting")
	case reason == "timeout":
		r = probe.Found(probe.Fail, "accepts the connection but does not answer within %v", limit)
	case reason == "reset", reason == "closed":
		r = probe.Found(probe.Fail, "accepted the connection and closed it")
	case errors.Is(err, bird.ErrNotBIRD):
		r = probe.Found(probe.Fail, "%v", err)
	}
	return r.With(probe.FactReason, reason)
}

// runsNoBIRD tells whether Calico's networking backend on this node surely has no BIRD.
func runsNoBIRD(p *probe.Pass) bool {
	backend := named(p, probe.KindBackend)
	return backend == "vxlan" || backend == "none"
}

// onlyOtherBIRD tells whether the daemon of the other family has a socket.
func onlyOtherBIRD(d daemon, h *probe.Host) bool {
	folders := birdFolders(h)
	for _, o := range daemons() {
		if o.family != d.family {
			_, err := findSocket(h, []string{folders[0] + "/" + o.name, folders[1] + "/" + o.name})
			return err == nil
		}
	}
	return false
}

// judgeMissing judges a socket that is not there, by what Calico is set to on this node.
func judgeMissing(d daemon, p *probe.Pass) probe.Result {
	backend, own := named(p, probe.KindBackend), p.Of(probe.KindSelf)
	has := func(t probe.Target) bool { return family(t.Addr) == d.family }
	switch {
	case runsNoBIRD(p):
		return probe.Found(probe.Skip, "Calico's networking backend here is %s, which runs no BIRD", backend)
	case len(own) > 0 && !slices.ContainsFunc(own, has):
		return probe.Found(probe.Skip, "Calico has registered no IPv%d address for this node", d.family)
	case backend == "" && onlyOtherBIRD(d, p.Host):
		return probe.Found(probe.Skip, "only BIRD for IPv%d runs here", 10-d.family)
	case backend == "" && errors.Is(unlisted(p, probe.KindBackend), probe.ErrNotVisible):
		return gap(p, probe.KindBackend, "")
	case backend == "":
		return probe.Found(probe.Unknown, "no such socket, and it is not known whether this node should run BIRD")
	}
	return probe.Found(probe.Fail, "no such socket: BIRD has not started on this node")
}
