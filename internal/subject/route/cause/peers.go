package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
)

// touched NODE returns the results that prove that a node answers.
func touched(f diagnose.Findings, args ...string) []diagnose.Finding {
	node := args[0]
	var out []diagnose.Finding
	for _, check := range []string{bgp.BGPPort.ID, pod.PodPing.ID, pod.PodTCP.ID, service.ServiceNodePort.ID} {
		out = append(out, diagnose.Keep(f.Of(check), func(r diagnose.Finding) bool {
			_, sent := r.Facts[probe.FactSource]
			return diagnose.NodeOf(r) == node && (r.Status == probe.OK && (check != bgp.BGPPort.ID || sent) ||
				diagnose.IsBad(r.Status) &&
					diagnose.ReasonOf(r) == "refused")
		})...)
	}
	return out
}

// nodeCutOff matches a node that reaches no other node.
func nodeCutOff(f diagnose.Findings) []diagnose.Case {
	silent, lives, seen := evidence.Pinged(f)
	if len(lives) > 0 || len(silent) == 0 || f.Fine(datastore.DatastoreLatency.ID) {
		return nil
	}
	c := diagnose.Case{Says: fmt.Sprintf("{node} cannot reach any of %d other nodes", len(silent)),
		Covers: append(evidence.PathFollows(f, 0, ""), diagnose.Covers(datastore.DatastoreLatency.ID,
			datastore.TyphaReach.ID)...)}
	for _, node := range silent {
		c.For = append(c.For, diagnose.Shows(seen[node][:1])...)
		c.Against = append(c.Against, diagnose.Suggests(touched(f, node))...)
	}
	c.For[0].Weight = diagnose.Hint
	if lost := f.Bad(datastore.DatastoreLatency.ID); diagnose.AllBad(f.Of(datastore.DatastoreLatency.ID)) {
		c.For = append(c.For, diagnose.Suggests(lost)...)
	}
	return []diagnose.Case{c}
}
