package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
)

// packetsLost matches a path that loses some packets and passes others.
func packetsLost(f diagnose.Findings) []diagnose.Case {
	lost := map[string][]diagnose.Finding{}
	var peers []string
	for _, check := range []string{link.NodePing.ID, pod.PodPing.ID} {
		for _, r := range diagnose.Keep(f.Failed(check), evidence.Arrived) {
			if lost[diagnose.NodeOf(r)] == nil {
				peers = append(peers, diagnose.NodeOf(r))
			}
			lost[diagnose.NodeOf(r)] = append(lost[diagnose.NodeOf(r)], r)
		}
	}
	var out []diagnose.Case
	for _, peer := range peers {
		sent, received := 0.0, 0.0
		for _, r := range lost[peer] {
			sent += diagnose.Num([]diagnose.Finding{r}, probe.FactSent)
			received += diagnose.Num([]diagnose.Finding{r}, probe.FactReceived)
		}
		out = append(out, diagnose.Case{About: peer, Peer: peer,
			Says: fmt.Sprintf("%.0f of %.0f pings from {node} to %s and its pods did not come back (%.0f %%): the path between the two nodes loses packets",
				sent-received, sent, peer, 100*(sent-received)/max(sent, 1)),
			Args: map[string]diagnose.Arg{"other": diagnose.NodeArg(peer)},
			For:  diagnose.Suggests(lost[peer]), Against: diagnose.Hints(evidence.Overloaded(f)),
			Covers: evidence.PathFollows(f, 0, peer)})
	}
	return out
}
