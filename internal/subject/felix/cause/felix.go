package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// unwell are the API's signs that calico-node suffers.
func unwell(f diagnose.Findings) []diagnose.Finding {
	return append(f.Failed(facts.CheckCalicoBudget), f.Bad(facts.CheckCalicoPod)...)
}

// localhostForeign is projectcalico/calico#2146 and #2880.
func localhostForeign(f diagnose.Findings) []diagnose.Case {
	foreign := evidence.OfLiveness(f, "foreign-address")
	if len(foreign) == 0 {
		return nil
	}
	c := diagnose.Case{Says: foreign[0].Saw, For: append(diagnose.Suggests(foreign), diagnose.Hints(unwell(f))...),
		Covers: evidence.FelixIll}
	if load := evidence.Loads(f.Failed(host.NodeLoad.ID)); len(load) > 0 {
		c.Against = diagnose.Hints(load) // either is enough, see start-under-load
	}
	return []diagnose.Case{c}
}

// felixElsewhere is a health port at an address where the kubelet's probe does not ask.
func felixElsewhere(f diagnose.Findings) []diagnose.Case {
	var open []diagnose.Finding
	for _, r := range f.Bad(felix.FelixLive.ID) {
		if len(elsewhere(r)) > 0 {
			open = append(open, r)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: "calico-node's probe asks where nobody listens: " + open[0].Saw,
		For:  append(diagnose.Suggests(open), diagnose.Hints(unwell(f))...), Covers: evidence.FelixIll,
	}}
}

// felixHealthOff is a health endpoint that is off while the probe asks it.
func felixHealthOff(f diagnose.Findings) []diagnose.Case {
	off, ill := evidence.OfLiveness(f, "disabled"), unwell(f)
	if len(off) == 0 || len(ill) == 0 {
		return nil // then nothing asks it
	}
	return []diagnose.Case{{
		Says: "Felix is set not to open its health port (healthEnabled is false), and calico-node's probe fails for it",
		For:  append(diagnose.Suggests(off), diagnose.Hints(ill)...), Covers: evidence.FelixIll,
	}}
}

// loopbackDropped is projectcalico/calico#4372.
func loopbackDropped(f diagnose.Findings) []diagnose.Case {
	silent := evidence.SilentAtHome(f)
	if len(silent) == 0 {
		return nil
	}
	c := diagnose.Case{
		Says: "packets to " + silent[0].Facts.Str(probe.FactAddress) + " on {node} itself vanish",
		For:  diagnose.Suggests(silent), Covers: evidence.FelixIll,
	}
	if len(silent) > 1 {
		c.Says = fmt.Sprintf("packets on {node}'s own loopback vanish: %d daemons that have nothing to do with each other do not even take a connection (%s)", len(silent), strings.Join(diagnose.ChecksOf(silent), ", "))
		c.For[1].Weight = diagnose.Hint
	} else if load := evidence.Loads(f.Failed(host.NodeLoad.ID)); len(load) > 0 {
		c.Against = diagnose.Hints(load)
	}
	if late := evidence.Starved(f); len(late) > 0 { // the client itself is slow
		c.Against = append(c.Against, diagnose.Suggests(late[:1])...)
	}
	// A node that is slow as a whole leaves its Unix sockets unanswered too, to which no packet goes.
	c.Against = append(c.Against,
		diagnose.Suggests(diagnose.Keep(f.Failed(bgp.BirdSocket.ID), diagnose.Because("timeout")))...)
	return []diagnose.Case{c}
}

// elsewhere are the addresses at which Felix's port is open, other than the one that
// was asked: a port that opens meanwhile is none.
func elsewhere(r diagnose.Finding) []string {
	return slices.DeleteFunc(slices.Clone(diagnose.ListOf(r, probe.FactListening)),
		func(at string) bool { return at == r.Facts.Str(probe.FactAddress) })
}

// components are the names of those Felix calls bad, over all answers of a check.
func components(fs []diagnose.Finding) []string {
	var out []string
	for _, r := range fs {
		for _, of := range diagnose.ListOf(r, felix.FactBad) {
			name, _, _ := strings.Cut(of, " ")
			out = append(out, name)
		}
	}
	return out
}

// felixWaits is a Felix that lives and has no data from the datastore yet.
func felixWaits(f diagnose.Findings) []diagnose.Case {
	unready := f.Failed(felix.FelixReady.ID)
	waiting := slices.DeleteFunc(components(unready), func(name string) bool {
		return name != "FelixStartup" && name != "CalculationGraph" && name != "felix-startup" && name != "async_calc_graph"
	})
	if len(waiting) == 0 || !f.Fine(felix.FelixLive.ID) {
		return nil
	}
	return []diagnose.Case{{
		Says:   fmt.Sprintf("Felix lives and is not ready: %s has not heard everything from the datastore yet", waiting[0]),
		For:    append(diagnose.Suggests(unready), diagnose.Shows(f.Of(felix.FelixLive.ID))...),
		Covers: diagnose.Covers(facts.CheckCalicoPod, felix.FelixReady.ID),
	}}
}

// felixDataplaneLate is a part of Felix that has not reported in time.
func felixDataplaneLate(f diagnose.Findings) []diagnose.Case {
	late := f.With(felix.FelixLive.ID, probe.FactCode, 503)
	which := components(late)
	if len(which) == 0 {
		return nil
	}
	c := diagnose.Case{Says: fmt.Sprintf("%s of Felix has not reported in time, so its liveness is 503",
		strings.Join(slices.Compact(which), " and ")), For: diagnose.Suggests(late), Covers: evidence.FelixIll}
	c.For = append(c.For, diagnose.Hints(unwell(f))...)
	return []diagnose.Case{c}
}

// felixStuck is a Felix that takes connections and answers none.
func felixStuck(f diagnose.Findings) []diagnose.Case {
	silent := slices.DeleteFunc(evidence.OfLiveness(f, "timeout"),
		func(r diagnose.Finding) bool { return !diagnose.IsBad(r.Status) })
	if len(silent) == 0 {
		return nil
	}
	c := diagnose.Case{Says: "Felix is frozen: " + silent[0].Saw, For: diagnose.Suggests(silent),
		Covers: evidence.FelixIll}
	if silent[0].Facts[probe.FactTaken] == false {
		c.For[0].Weight = diagnose.Hint // see loopback-dropped
	}
	if kubelet := evidence.KubeletAnswers(f); len(kubelet) > 0 { // on the same loopback, and in time
		c.For = append(c.For, diagnose.Hints(kubelet)...)
	} else if load := evidence.Loads(f.Bad(host.NodeLoad.ID)); len(load) > 0 {
		c.Against = diagnose.Hints(load)
	}
	return []diagnose.Case{c}
}

// felixLog is the way to why Felix ends where calico-log has no line of it.
var felixLog = probe.Fix{
	Says:     "Correct what calico-node logs as FATAL, PANIC or ERROR before Felix ends, then restart calico-node. This run has seen no such line.",
	Manifest: []string{"kubectl -n {namespace} logs {pod} -c calico-node --tail=100 | grep -E 'FATAL|PANIC|ERROR|Health endpoint failed'"},
	OnlyIf:   []probe.Conditional{{If: "its reason is gone, or the log has none", Manifest: []string{evidence.RestartCalico}}},
	Radius:   evidence.RestartRadius,
}

// felixDown is a Felix that does not run in a container that does.
func felixDown(f diagnose.Findings) []diagnose.Case {
	refused := slices.DeleteFunc(evidence.OfLiveness(f, "refused"), func(r diagnose.Finding) bool {
		return !diagnose.IsBad(r.Status) || len(elsewhere(r)) > 0
	})
	if len(refused) == 0 {
		return nil
	}
	c := diagnose.Case{Says: "Felix does not run: nothing listens on its health port", For: diagnose.Suggests(refused),
		Covers: evidence.FelixIll}
	if over := f.With(start.StartupBudget.ID, start.FactOver, true); len(over) > 0 {
		c.Says = fmt.Sprintf("Felix does not answer although start-up is over: %s", over[0].Saw)
		c.For = append(c.For, diagnose.Hints(over)...)
	}
	if short := evidence.CutShort(f); len(short) > 0 { // perhaps it never was started
		c.Against = diagnose.Hints(short)
	}
	if wrote := evidence.LastError(f); len(wrote) > 0 {
		c.Says += "; the last error in its log: " + wrote[0].Facts.Str(logs.FactLine)
		c.For = append(c.For, diagnose.Shows(wrote)...)
		c.Fix = &probe.Fix{Says: "Correct what the quoted line names, then restart calico-node. Felix logs a panic or a missing dependency before it exits.",
			Manifest: felixLog.Manifest, OnlyIf: felixLog.OnlyIf, Radius: felixLog.Radius}
	}
	return []diagnose.Case{c}
}
