package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
)

// peerNodePorts is another node's trouble with services, felt from here.
func peerNodePorts(f diagnose.Findings) []diagnose.Case {
	all := f.Of(service.ServiceNodePort.ID)
	good := diagnose.Keep(all, func(r diagnose.Finding) bool { return r.Status == probe.OK })
	var out []diagnose.Case
	for _, peer := range peersOf(diagnose.Keep(all, func(r diagnose.Finding) bool { return r.Status == probe.Fail })) {
		theirs := func(r diagnose.Finding) bool { return diagnose.NodeOf(r) == peer }
		failed := diagnose.Keep(all, func(r diagnose.Finding) bool { return theirs(r) && r.Status == probe.Fail })
		pinged := diagnose.Keep(f.Of(link.NodePing.ID), func(r diagnose.Finding) bool {
			return theirs(r) &&
				r.Status == probe.OK
		})
		if peer == f.Node || len(diagnose.Keep(good, theirs)) > 0 || len(good) == 0 || len(pinged) == 0 {
			continue
		}
		out = append(out, diagnose.Case{
			About: peer, Peer: peer, Args: map[string]diagnose.Arg{"other": diagnose.NodeArg(peer)},
			Says: fmt.Sprintf("node ports do not answer at %s's own addresses, and the same service answers at others: services do not work on %s", peer, peer),
			For:  append(diagnose.Suggests(failed), diagnose.Shows(good[:1], pinged[:1])...),
		})
	}
	return out
}

// peersOf are the nodes some findings are about, once each.
func peersOf(fs []diagnose.Finding) []string {
	seen := map[string]bool{}
	var out []string
	for _, r := range fs {
		if peer := diagnose.NodeOf(r); peer != "" && !seen[peer] {
			seen[peer] = true
			out = append(out, peer)
		}
	}
	return out
}
