package cause

import (
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// bgpNoPeers is a node to which nobody tells routes.
func bgpNoPeers(f diagnose.Findings) []diagnose.Case {
	none := f.With(facts.CheckBGPPeering, probe.FactReason, facts.NoBGPPeer)
	none = append(none, f.With(facts.CheckBGPPeering, probe.FactReason, facts.BadBGPPeer)...)
	if len(none) == 0 {
		return nil
	}
	missed := f.Failed(route.RouteBlocks.ID)
	for _, check := range []string{pod.PodPing.ID, pod.PodTCP.ID} {
		missed = append(missed, diagnose.Keep(f.Failed(check), func(r diagnose.Finding) bool {
			return diagnose.NodeOf(r) != "" && diagnose.NodeOf(r) != f.Node
		})...)
	}
	if len(missed) == 0 { // the network knows the pods
		return nil
	}
	c := diagnose.Case{Says: "no other node tells {node} where its pods are: " + none[0].Saw,
		For:    append(diagnose.Suggests(none), diagnose.Hints(missed)...),
		Covers: append(evidence.PathFollows(f, 0, ""), diagnose.Covers(route.RouteBlocks.ID, facts.CheckBGPPeering)...)}
	c.Args = map[string]diagnose.Arg{"reflector": diagnose.NodeArg(f.Node)}
	if at := diagnose.ListOf(none[0], facts.Reflectors); len(at) > 0 {
		c.Args["reflector"] = diagnose.NodeArg(at[0])
	}
	if idle := diagnose.ListOf(none[0], facts.IdlePeers); len(idle) > 0 && !strings.Contains(none[0].Saw, idle[0]) {
		c.Says += " (" + idle[0] + ")"
	}
	return []diagnose.Case{c}
}
