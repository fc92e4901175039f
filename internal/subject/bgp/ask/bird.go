package ask

import (
	"errors"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
	"github.com/calico-probe/calico-probe/probe/node"
)

// Facts of the BIRD checks.
const (
	factProtocol probe.Fact = "protocol" // the name of the session in BIRD

	factImported probe.Fact = "imported" // number of routes imported from the peer
	factExported probe.Fact = "exported" // number of routes exported to the peer

	factWaiting probe.Fact = "waiting" // the protocols for which a graceful restart waits

	FactPeerCount probe.Fact = "peers"       // number of BGP protocols
	factUpCount   probe.Fact = "established" // number of established sessions
)

// judgeDead evaluates a failed connection to BIRD. limit is the time limit for the attempt.
func judgeDead(d node.Daemon, p *probe.Pass, limit time.Duration, err error) probe.Result {
	reason := probe.Reason(err)
	r := probe.Failed(err)
	switch {
	case errors.Is(err, probe.ErrNotVisible):
		return probe.Found(probe.Skip, "%v", err)
	case reason != "missing" && runsNoBIRD(p): // the folder remains after calico-node is gone, until the node reboots
		return probe.Found(probe.Skip, "Calico's networking backend here is %s, which does not run BIRD; the socket is stale", node.Named(p, probe.KindBackend))
	case reason == "missing":
		r = judgeMissing(d, p)
	case reason == "refused":
		r = probe.Found(probe.Fail, "the socket refuses connections: BIRD is dead or restarting")
	case reason == "timeout":
		r = probe.Found(probe.Fail, "BIRD accepts the connection but does not answer within %v", limit)
	case reason == "reset", reason == "closed":
		r = probe.Found(probe.Fail, "BIRD accepted the connection and closed it")
	case errors.Is(err, bird.ErrNotBIRD):
		r = probe.Found(probe.Fail, "%v", err)
	}
	return r.With(probe.FactReason, reason)
}

// runsNoBIRD reports whether it is certain that Calico's networking backend on this node does not run BIRD.
func runsNoBIRD(p *probe.Pass) bool {
	backend := node.Named(p, probe.KindBackend)
	return backend == "vxlan" || backend == "none"
}

// onlyOtherBIRD reports whether only the daemon for the other address family has a socket.
func onlyOtherBIRD(d node.Daemon, h *probe.Host) bool {
	folders := node.BirdFolders(h)
	for _, o := range node.Daemons() {
		if o.Family != d.Family {
			_, err := node.FindSocket(h, []string{folders[0] + "/" + o.Name, folders[1] + "/" + o.Name})
			return err == nil
		}
	}
	return false
}

// judgeMissing evaluates a missing socket by Calico's configuration on this node.
func judgeMissing(d node.Daemon, p *probe.Pass) probe.Result {
	backend, own := node.Named(p, probe.KindBackend), p.Of(probe.KindSelf)
	has := func(t probe.Target) bool { return node.Family(t.Addr) == d.Family }
	switch {
	case runsNoBIRD(p):
		return probe.Found(probe.Skip, "Calico's networking backend here is %s, which does not run BIRD", backend)
	case len(own) > 0 && !slices.ContainsFunc(own, has):
		return probe.Found(probe.Skip, "Calico has registered no IPv%d address for this node", d.Family)
	case backend == "" && onlyOtherBIRD(d, p.Host):
		return probe.Found(probe.Skip, "this node runs BIRD only for IPv%d", 10-d.Family)
	case backend == "" && errors.Is(node.Unlisted(p, probe.KindBackend), probe.ErrNotVisible):
		return node.Gap(p, probe.KindBackend, "")
	case backend == "":
		return probe.Found(probe.Unknown, "no such socket; unknown whether this node should run BIRD")
	}
	return probe.Found(probe.Fail, "no such socket: BIRD has not started on this node")
}
