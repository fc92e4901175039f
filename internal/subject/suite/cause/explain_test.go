package cause

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// TestBlankTargets has a node answer about nothing, to checks whose targets rules take apart.
func TestBlankTargets(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"", " ", "\u00a0"} {
		f := diagnose.Findings{Node: "a"}
		for _, r := range []probe.Result{
			{Check: route.RouteCanReach.ID, Status: probe.Fail, Facts: probe.Facts{route.FactOwnedBy: "eth0"}},
			{Check: link.NodeNeighbours.ID, Status: probe.Warn, Facts: probe.Facts{link.FactMAC: "02:00:00:00:00:01"}},
			{Check: link.NodePing.ID, Status: probe.Fail},
		} {
			r.Target = target
			f.All = append(f.All, diagnose.Finding{Node: "a", Result: r})
		}
		if d := diagnose.Explain(f, All()); len(d.Failed) > 0 {
			t.Errorf("%q: %v", target, d.Failed)
		}
	}
}
