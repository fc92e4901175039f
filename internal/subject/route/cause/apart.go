package cause

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
)

// pingChecks are the checks whose answers refute a dead peer; nodesApart then replaces that cause.
var pingChecks = []string{link.NodePing.ID, pod.PodPing.ID}

// nodesApart matches two nodes that cannot reach each other but are both reachable from a third node.
func nodesApart(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	done := map[string]bool{}
	for _, check := range pingChecks {
		for _, r := range f.Bad(check) {
			peer := diagnose.NodeOf(r)
			seen := diagnose.ThirdNodes(f, r, peer)
			if peer == "" || peer == f.Node || done[peer] || evidence.Arrived(r) || len(seen) == 0 {
				continue
			}
			done[peer] = true
			_, address, _ := strings.Cut(r.Target, " ")
			says := fmt.Sprintf("{node} gets no answer from %s, but %s does: only the path between {node} and %s is broken",
				r.Target, seen[0].Node, peer)
			if len(evidence.Askers(seen)) == 1 {
				says += "; seen only from " + seen[0].Node
			}
			out = append(out, diagnose.Case{About: peer, Peer: peer,
				Args:   map[string]diagnose.Arg{"other": diagnose.NodeArg(peer), "address": diagnose.AddressArg(address)},
				Says:   says,
				For:    append(diagnose.Suggests([]diagnose.Finding{r}), diagnose.Shows(seen[:1])...),
				Covers: evidence.PathFollows(f, 0, peer)})
		}
	}
	return out
}
