package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// bgpRoutesFiltered is a session that stands and carries nothing.
func bgpRoutesFiltered(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Bad(bgp.BGPSession.ID) {
		if r.Facts[bgp.FactUpdates] == nil {
			continue
		}
		peer := diagnose.NodeOf(r)
		c := diagnose.Case{About: peer, Peer: peer, Family: diagnose.FamilyOf(r),
			For:    diagnose.Suggests([]diagnose.Finding{r}),
			Says:   fmt.Sprintf("between {node} and %s: %s", peer, r.Saw),
			Covers: evidence.PathFollows(f, diagnose.FamilyOf(r), peer)}
		if r.Facts.Str(bgp.FactFilters) != "" {
			c.For[0].Weight = diagnose.Proof
		}
		for _, check := range []string{route.RouteBlocks.ID, pod.PodPing.ID} { // the other end lacks the route
			c.For = append(c.For, diagnose.Hints(diagnose.Keep(f.Elsewhere(check), func(o diagnose.Finding) bool {
				return o.Node == peer && o.Status == probe.Fail && diagnose.FamilyOf(o) == diagnose.FamilyOf(r)
			}))...)
		}
		out = append(out, c)
	}
	return out
}
