package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
)

// fragmentsDropped matches a path that passes whole packets but drops fragments.
func fragmentsDropped(f diagnose.Findings) []diagnose.Case {
	byPeer := map[string]int{}
	var out []diagnose.Case
	for _, r := range f.With(pod.PodMTU.ID, probe.FactReason, probe.ReasonFragments) {
		peer := diagnose.NodeOf(r)
		i, known := byPeer[peer]
		if !known {
			i = len(out)
			byPeer[peer] = i
			out = append(out, diagnose.Case{About: peer, Peer: peer,
				Args: map[string]diagnose.Arg{"other": diagnose.NodeArg(peer)},
				Says: fmt.Sprintf("large pings in fragments between {node} and pods on %s are lost, but whole packets pass: a "+
					"firewall of either node, the network between them or the receiving pod's own namespace drops fragments", peer)})
		}
		out[i].For = append(out[i].For, diagnose.Suggests([]diagnose.Finding{r})...)
	}
	return slices.DeleteFunc(out, func(c diagnose.Case) bool { return !fromNodeAndPod(c.For) })
}

// fromNodeAndPod reports whether the node itself and one of its pods have the same result.
func fromNodeAndPod(seen []diagnose.Clue) bool {
	pods := 0
	for _, c := range seen {
		if c.From != "" {
			pods++
		}
	}
	return pods > 0 && pods < len(seen)
}
