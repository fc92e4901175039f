package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// addressUnanswered matches a live node whose registered address does not answer ARP or NDP. It returns one case for
// each family.
func addressUnanswered(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, mute := range f.Elsewhere(link.NeighbourReach.ID) {
		got, pinged := mute.Facts.Num(probe.FactReceived)
		address, icmp := strings.CutSuffix(strings.TrimPrefix(mute.Target, f.Node+" "), " icmp")
		if !icmp || diagnose.NodeOf(mute) != f.Node || !pinged || got > 0 || !evidence.Addressless(mute) {
			continue
		}
		if slices.ContainsFunc(evidence.AllElsewhere(f),
			func(r diagnose.Finding) bool { return diagnose.FamilyOf(r) == diagnose.FamilyOf(mute) }) {
			continue // an address of a network that does not connect the nodes
		}
		lives := diagnose.Keep(f.Elsewhere(link.NeighbourReach.ID), func(r diagnose.Finding) bool {
			return diagnose.NodeOf(r) == f.Node && r.Status == probe.OK && r.Node == mute.Node &&
				!strings.Contains(r.Target, address)
		})
		renewed := diagnose.Good(f, facts.CheckNodeLease)
		if len(lives) == 0 && len(renewed) == 0 ||
			slices.ContainsFunc(out, func(c diagnose.Case) bool { return c.Family == diagnose.FamilyOf(mute) }) {
			continue
		}
		c := diagnose.Case{About: address, Family: diagnose.FamilyOf(mute),
			Args: map[string]diagnose.Arg{"address": diagnose.AddressArg(address)},
			For:  append(diagnose.Suggests([]diagnose.Finding{mute}), diagnose.Hints(append(lives, renewed...))...)}
		what := "its lease is renewed"
		if len(lives) > 0 {
			what = strings.TrimPrefix(lives[0].Target, f.Node+" ") + " answers"
		}
		c.Says = fmt.Sprintf("{node}'s registered address %s does not answer ARP or NDP, but {node} is alive (%s): it lost that address or now has another", address, what)
		c.Covers = append(slices.Clone(evidence.KubeletGone), diagnose.Covers(probe.CheckPlaced)...)
		if has := f.With(link.IPAutodetect.ID, probe.FactReason, "gone"); len(has) > 0 {
			c.For = append(c.For, diagnose.Hints(has)...)
		}
		out = append(out, c)
	}
	return out
}
