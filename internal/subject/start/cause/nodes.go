package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// addressUnanswered is a node that lives, and nobody answers for its address.
func addressUnanswered(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, mute := range f.Elsewhere(link.NeighbourReach.ID) {
		got, asked := mute.Facts.Num(probe.FactReceived)
		address, icmp := strings.CutSuffix(strings.TrimPrefix(mute.Target, f.Node+" "), " icmp")
		if !icmp || diagnose.NodeOf(mute) != f.Node || !asked || got > 0 || !evidence.Addressless(mute) {
			continue
		}
		if slices.ContainsFunc(evidence.AllElsewhere(f),
			func(r diagnose.Finding) bool { return diagnose.FamilyOf(r) == diagnose.FamilyOf(mute) }) {
			continue // the address of a network that joins no nodes
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
			what = strings.TrimPrefix(lives[0].Target, f.Node+" ") + " of it answers"
		}
		c.Says = fmt.Sprintf("no machine answers for {node}'s registered address %s, but {node} is alive (%s): it lost that address, or has another one now", address, what)
		c.Covers = append(slices.Clone(evidence.KubeletGone), diagnose.Covers(probe.CheckPlaced)...)
		if has := f.With(link.IPAutodetect.ID, probe.FactReason, "gone"); len(has) > 0 {
			c.For = append(c.For, diagnose.Hints(has)...)
		}
		out = append(out, c)
	}
	return out
}

// bgpRouterID is one router ID of two BIRDs.
func bgpRouterID(f diagnose.Findings) []diagnose.Case {
	by := map[int][]diagnose.Finding{}
	for _, r := range f.Bad(bgp.BGPSession.ID) {
		if diagnose.ReasonOf(r) == "bad-id" {
			by[diagnose.FamilyOf(r)] = append(by[diagnose.FamilyOf(r)], r)
		}
	}
	var out []diagnose.Case
	for _, family := range []int{4, 6} {
		down := by[family]
		if len(down) == 0 {
			continue
		}
		c := diagnose.Case{About: diagnose.FamilyName(family), Family: family, For: diagnose.Proves(down),
			Covers: evidence.PathFollows(f,
				family, "")}
		var peers []string
		for _, r := range down {
			peers = append(peers, r.Target)
		}
		c.Says = fmt.Sprintf("BIRD on {node} and its peer %s have the same router ID",
			strings.Join(peers[:min(len(peers), 3)], ", "))
		for _, bird := range evidence.BirdOf(f, bgp.BirdSocket.ID, family) {
			id := bird.Facts.Str(bgp.FactRouterID)
			if id == "" {
				continue
			}
			c.Says += " " + id
			c.For = append(c.For, diagnose.Shows([]diagnose.Finding{bird})...)
			if own := diagnose.Keep(f.Of(facts.CheckIPRegistered),
				func(r diagnose.Finding) bool { return r.Facts.Str(facts.Registered) == id }); len(own) == 0 {
				c.Says += ", which is not {node}'s address: CALICO_ROUTER_ID sets it, for all nodes of the DaemonSet"
			} else {
				c.Says += ", which is {node}'s address: the other end has it from CALICO_ROUTER_ID, or is a copy of this node"
			}
			break
		}
		out = append(out, c)
	}
	return out
}

// tunnelSettings are two ends of a tunnel that are not set alike.
func tunnelSettings(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	lost := evidence.OverPods(f)
	for _, r := range f.Bad(facts.CheckTunnelSettings) {
		c := diagnose.Case{About: r.Target, Says: "{node}'s tunnel does not fit those of the other nodes: " + r.Saw,
			Args: map[string]diagnose.Arg{"setting": diagnose.CheckedArg(r.Target, diagnose.IsWord(r.Target) &&
				!strings.ContainsAny(r.Target, "./"), "SETTING")},
			Covers: lost}
		switch {
		case r.Status == probe.Fail && len(lost) > 0:
			c.For = diagnose.Proves([]diagnose.Finding{r})
		case len(lost) > 0:
			c.For = diagnose.Suggests([]diagnose.Finding{r})
		default:
			c.For = diagnose.Hints([]diagnose.Finding{r})
		}
		out = append(out, c)
	}
	return out
}
