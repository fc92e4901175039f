package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// deaf are the families whose BIRD does not answer.
func deaf(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(f.Failed(bgp.BirdSocket.ID), func(r diagnose.Finding) bool { return diagnose.FamilyOf(r) != 0 })
}

// unsettled tells whether calico-node starts, or is killed before its start is over:
// then no daemon of it that is not there is a fault of its own.
func unsettled(f diagnose.Findings) bool {
	return len(evidence.CutShort(f)) > 0 || len(f.With(start.StartupBudget.ID, start.FactOver, false)) > 0
}

// birdSocketGone is a BIRD that works and that nobody can ask.
func birdSocketGone(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, socket := range deaf(f) {
		family := diagnose.FamilyOf(socket)
		up := diagnose.Keep(f.Of(bgp.BGPPort.ID), func(r diagnose.Finding) bool {
			return diagnose.FamilyOf(r) == family && r.Facts[probe.FactSessionUp] == true
		})
		runs := diagnose.Keep(evidence.BirdOf(f, bgp.BirdConfig.ID, family), func(r diagnose.Finding) bool {
			pid, _ := r.Facts.Num(probe.FactPID)
			return r.Status == probe.OK && pid > 0 && r.Facts[bgp.FactRuns] != false
		})
		if diagnose.ReasonOf(socket) != "missing" || len(up) == 0 || len(runs) == 0 {
			continue
		}
		out = append(out, diagnose.Case{
			About: diagnose.FamilyName(family), Family: family, For: append(diagnose.Suggests([]diagnose.Finding{socket}),
				diagnose.Hints(up[:1])...),
			Says: "BIRD for " + diagnose.FamilyName(family) + " runs on {node} and has sessions, and its control socket is gone: calico-node " +
				"is not ready for that alone",
			Covers: append(diagnose.Covers(bgp.BGPExpected.ID, bgp.BGPSession.ID), evidence.Unready(f)...),
		})
	}
	return out
}

// birdDead is a BIRD that is not there, whatever ended it.
func birdDead(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, socket := range deaf(f) {
		family := diagnose.FamilyOf(socket)
		says := "BIRD for " + diagnose.FamilyName(family) + " does not run on {node}: its socket is there and nobody listens"
		switch diagnose.ReasonOf(socket) {
		case "refused":
		case "timeout":
			says = "BIRD for " + diagnose.FamilyName(family) + " on {node} hangs: it takes connections and does not speak"
		case "missing":
			says = "BIRD for " + diagnose.FamilyName(family) + " has not started on {node}"
		default:
			continue
		}
		c := diagnose.Case{About: diagnose.FamilyName(family), Family: family, Says: says,
			For:    diagnose.Suggests([]diagnose.Finding{socket}),
			Covers: evidence.PathFollows(f, family, "")}
		c.Covers = append(c.Covers, diagnose.Covers(bgp.BirdConfig.ID, bgp.BGPExpected.ID)...)
		pod := diagnose.Keep(f.Bad(facts.CheckCalicoPod),
			func(r diagnose.Finding) bool { return r.Facts.Str(facts.APIReason) == "" })
		ended := diagnose.Keep(evidence.BirdOf(f, bgp.BirdConfig.ID, family),
			func(r diagnose.Finding) bool { return r.Facts[bgp.FactRuns] == false })
		sure := diagnose.Hint
		if unsettled(f) {
			sure = 0
		}
		if len(ended) > 0 {
			c.For = append(c.For, diagnose.Clues(sure, ended)...)
		} else {
			c.For = append(c.For, diagnose.Clues(sure, pod)...)
		}
		if late := evidence.Starved(f); len(late) > 0 { // the client itself is slow
			c.Against = diagnose.Suggests(late[:1])
		}
		out = append(out, c)
	}
	return out
}

// birdUnfed is a BIRD without a configuration.
func birdUnfed(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, file := range diagnose.Keep(f.Failed(bgp.BirdConfig.ID), func(r diagnose.Finding) bool {
		return diagnose.ReasonOf(r) == "missing" ||
			diagnose.ReasonOf(r) == "empty"
	}) {
		// Seconds of this are part of every start; then why the start does not end is the cause.
		weight := diagnose.Proof
		if unsettled(f) || len(f.Bad(felix.FelixReady.ID)) > 0 {
			weight = diagnose.Strong // Felix does not get what confd waits for either
		}
		out = append(out, diagnose.Case{
			About: diagnose.FamilyName(diagnose.FamilyOf(file)), Family: diagnose.FamilyOf(file),
			Says: "confd on {node} has not written what BIRD is to do, so BIRD cannot run or has no peers",
			For:  diagnose.Clues(weight, []diagnose.Finding{file}),
			Covers: append(evidence.PathFollows(f, diagnose.FamilyOf(file), ""),
				diagnose.Covers(bgp.BirdSocket.ID, bgp.BGPExpected.ID, datastore.TyphaReach.ID)...),
		})
	}
	return out
}

// dropBlocker is the fix where one of the peers is a Node whose kubelet is silent.
var dropBlocker = &probe.Fix{
	Says:     "Wait the time that is left; then take away what it waited for: bring {gone} back, or delete its Node if its machine is gone for good.",
	Manifest: []string{"kubectl describe node {gone}"},
	OnlyIf: []probe.Conditional{
		{If: "the machine of {gone} is gone for good", Manifest: []string{"kubectl delete node {gone}"}},
	},
	Radius: "waiting: nothing. Deleting the Node takes its pods out of the API and its peer out of every BIRD; the other sessions stay",
}

// bgpRestartHold is the trap of graceful restart.
func bgpRestartHold(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, whole := range diagnose.Keep(f.Bad(bgp.BGPSession.ID), func(r diagnose.Finding) bool {
		_,
			held := r.Facts.Num(bgp.FactWaitLeft)
		return held
	}) {
		left, _ := whole.Facts.Num(bgp.FactWaitLeft)
		var names []string
		weight, blockers := diagnose.Proof, diagnose.ListOf(whole, bgp.FactBlockers)
		if slices.ContainsFunc(downSessions(f), func(s session) bool {
			return s.answers() && slices.Contains(blockers, s.Facts.Str(bgp.FactPeer))
		}) {
			weight = diagnose.Strong // that machine lives: why its session does not come up is the reason
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
						c.Args, c.Fix = map[string]diagnose.Arg{"gone": diagnose.NodeArg(diagnose.NodeOf(s))}, dropBlocker
					}
					if diagnose.IsBad(s.Status) {
						c.For = append(c.For, diagnose.Shows([]diagnose.Finding{s})...)
					}
				}
			}
			names = append(names, name)
		}
		c.Says = fmt.Sprintf("BIRD on {node} restarted and keeps every BGP route out of the kernel for up to %.0f s more",
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

// bgpPeersMissing are peers BIRD was never told of.
func bgpPeersMissing(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Failed(bgp.BGPExpected.ID) {
		lacks := diagnose.ListOf(r, probe.FactMissing)
		if len(lacks) == 0 {
			continue
		}
		c := diagnose.Case{
			About: diagnose.FamilyName(diagnose.FamilyOf(r)), Family: diagnose.FamilyOf(r),
			For:    diagnose.Suggests([]diagnose.Finding{r}),
			Covers: evidence.PathFollows(f, diagnose.FamilyOf(r), ""),
			Says: fmt.Sprintf("BIRD on {node} was not told of %s: confd does not follow Calico's resources",
				strings.Join(lacks, ", ")),
		}
		if old := diagnose.Keep(f.Failed(bgp.BirdConfig.ID), func(b diagnose.Finding) bool {
			return diagnose.ReasonOf(b) == "not-loaded" &&
				diagnose.FamilyOf(b) == diagnose.FamilyOf(r)
		}); len(old) > 0 {
			c.For = append(c.For, diagnose.Hints(old)...)
			c.Says = fmt.Sprintf("BIRD on {node} has not loaded the configuration that confd wrote, and lacks %s",
				strings.Join(lacks, ", "))
		}
		c.For = append(c.For, diagnose.Hints(f.Failed(datastore.TyphaReach.ID))...)
		out = append(out, c)
	}
	return out
}
