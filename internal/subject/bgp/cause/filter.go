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
var bgpRoutesFiltered = &diagnose.Rule{
	ID: "bgp-routes-filtered", Layer: diagnose.LayerPeers, Title: "a BGP session is established but exchanges no pod routes",
	Doc: `Both ends are up and every check of the session is green, and a filter lets none of the blocks through: a BGPFilter that a BGPPeer names, or whose rules reject the pods' pool; disableBGPExport of a pool; BIRD templates of one's own. Pods of one node are then not reached from the other, and nothing is down. Each end filters what it exports and what it imports: what BIRD has received tells which one it is.
Told from a session that is down by its state; from a node without blocks, which has nothing to export, by IPAM.`,
	Fix: probe.Fix{
		Says: "Have the filters of this session accept the pods' pool, for export on this node and for import on the peer. The first rule of a BGPFilter that matches decides.",
		Manifest: []string{
			"kubectl get bgpfilters.crd.projectcalico.org -o yaml",
			"kubectl get bgppeers.crd.projectcalico.org -o custom-columns=NAME:.metadata.name,NODE:.spec.node,SELECTOR:.spec.nodeSelector,PEER:.spec.peerIP,FILTERS:.spec.filters",
			"kubectl -n {namespace} exec {pod} -c calico-node -- birdcl show protocols all",
		},
		Radius: "reading changes nothing; a changed filter holds for every session that names it, at once",
	},
	RuledOut: []string{bgp.BGPPort.ID, bgp.BGPExpected.ID},
	Explains: []string{"route-not-made", "peer-pods"},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}
