package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// deaf returns the bird-socket results of the families whose BIRD does not answer.
func deaf(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(f.Failed(bgp.BirdSocket.ID), func(r diagnose.Finding) bool { return diagnose.FamilyOf(r) != 0 })
}

// bgpRestartHold matches a BIRD that withholds its routes during a graceful restart.
func bgpRestartHold(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, whole := range diagnose.Keep(f.Bad(bgp.BGPSession.ID), func(r diagnose.Finding) bool {
		_, held := r.Facts.Num(bgp.FactWaitLeft)
		return held
	}) {
		left, _ := whole.Facts.Num(bgp.FactWaitLeft)
		var names []string
		weight, blockers := diagnose.Proof, diagnose.ListOf(whole, bgp.FactBlockers)
		if slices.ContainsFunc(downSessions(f), func(s session) bool {
			return s.answers() && slices.Contains(blockers, s.Facts.Str(bgp.FactPeer))
		}) {
			weight = diagnose.Strong // that machine is up: the root cause is why its session is down
		}
		if len(evidence.WrongAddresses(f, diagnose.FamilyOf(whole))) > 0 {
			weight = diagnose.Strong // sessions are opened to an address that the other node does not use
		}
		c := diagnose.Case{About: diagnose.FamilyName(diagnose.FamilyOf(whole)), Family: diagnose.FamilyOf(whole),
			For:    diagnose.Clues(weight, []diagnose.Finding{whole}),
			Covers: evidence.PathFollows(f, diagnose.FamilyOf(whole), "")}
		for _, blocker := range blockers {
			name := blocker
			for _, s := range f.Of(bgp.BGPSession.ID) {
				if s.Facts.Str(bgp.FactPeer) == blocker && s.Target != "" {
					name = s.Target
					if s.Facts.Str(probe.FactNodeState) == probe.NodeSilent {
						c.Args, c.FixName = map[string]diagnose.Arg{"gone": diagnose.NodeArg(diagnose.NodeOf(s))}, "drop-blocker"
					}
					if diagnose.IsBad(s.Status) {
						c.For = append(c.For, diagnose.Shows([]diagnose.Finding{s})...)
					}
				}
			}
			names = append(names, name)
		}
		c.Says = fmt.Sprintf("BIRD on {node} restarted and withholds all BGP routes from the kernel for up to %.0f s more",
			left)
		if len(names) > 0 {
			c.Says += ", waiting for " + strings.Join(names, ", ")
		}
		c.For = append(c.For, diagnose.Shows(diagnose.Keep(f.Bad(route.RouteBlocks.ID),
			func(r diagnose.Finding) bool { return len(diagnose.ListOf(r, route.FactInBIRD)) > 0 }))...)
		out = append(out, c)
	}
	return out
}
