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
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// estimate is the duration of a start that startup-budget computes, with its parts.
type estimate struct {
	diagnose.Finding
	startup, budget, far, calls, work, stretch float64
}

// way returns the seconds that only the round trips to the datastore take.
func (e estimate) way() float64 { return e.far / 1000 * e.calls }

func estimateOf(f diagnose.Findings) (estimate, bool) {
	for _, r := range f.Of(start.StartupBudget.ID) {
		e := estimate{Finding: r}
		for key, to := range map[probe.Fact]*float64{
			start.FactStartup: &e.startup, start.FactBudget: &e.budget, start.FactFar: &e.far,
			start.FactCalls: &e.calls, start.FactWork: &e.work, start.FactStretch: &e.stretch,
		} {
			*to, _ = r.Facts.Num(key)
		}
		if e.calls > 0 {
			return e, true
		}
	}
	return estimate{}, false
}

// budgetOf returns how long a start may take, in seconds; 0 if that is unknown.
func budgetOf(f diagnose.Findings) float64 {
	for _, check := range []string{facts.CheckCalicoBudget, start.StartupBudget.ID} {
		for _, r := range f.Of(check) {
			if n, ok := r.Facts.Num(start.FactBudget); ok && n > 0 {
				return n
			}
		}
	}
	return 0
}

// timeFor returns the setting that allows a start of one and a half times this many seconds. It changes the probe that
// sets the budget: a startup probe delays the liveness probe.
func timeFor(f diagnose.Findings, startup float64) map[string]diagnose.Arg {
	const limit = 3600 // the duration is one node's report, and the setting applies to all nodes
	whole := min(limit, max(60, int(min(startup, limit)*1.5/10+1)*10))
	if len(f.With(facts.CheckCalicoBudget, facts.BudgetProbe, "startup")) == 0 {
		return map[string]diagnose.Arg{"moretime": diagnose.OwnArg(fmt.Sprintf(`"livenessProbe":{"initialDelaySeconds":%d}`, whole))}
	}
	period := int(diagnose.Num(f.Of(facts.CheckCalicoBudget), facts.Period))
	if period <= 0 {
		period = 10 // Kubernetes' default
	}
	return map[string]diagnose.Arg{"moretime": diagnose.OwnArg(fmt.Sprintf(`"startupProbe":{"failureThreshold":%d}`, whole/period+1))}
}

// eachCPU returns the load for each CPU.
func eachCPU(r diagnose.Finding) float64 {
	load, _ := r.Facts.Num(host.FactLoad)
	cpus, _ := r.Facts.Num(host.FactCPUs)
	return load / max(1, cpus)
}

// loadMuch is the load for each CPU from which node-load warns. In incident 002, broken nodes had more than ten and
// healthy nodes less than one.
const loadMuch = 4

// startUnderLoad matches a start that the node's load makes too slow (incident 002).
func startUnderLoad(f diagnose.Findings) []diagnose.Case {
	load, short := evidence.Loads(f.Bad(host.NodeLoad.ID)), evidence.CutShort(f)
	if late := evidence.Starved(f); len(late) > 0 && len(short) > 0 && !f.Answered(host.NodeLoad.ID) {
		return []diagnose.Case{{
			Says: fmt.Sprintf("calico-node's start outlasts the %v its liveness or startup probe allows, and this run's probe got no CPU time on {node} either: %d of its checks timed out", diagnose.Seconds(budgetOf(f)), len(late)),
			Args: timeFor(f, 4*budgetOf(f)), For: append(diagnose.Suggests(late[:1]), diagnose.Hints(short)...),
			Covers: evidence.CalicoDown,
		}}
	}
	if len(load) == 0 || eachCPU(load[0]) < loadMuch || len(short) == 0 || evidence.OfDisks(load[0]) {
		return nil
	}
	c := diagnose.Case{Args: timeFor(f, 4*budgetOf(f)), Covers: evidence.CalicoDown}
	weight := diagnose.Hint
	if load[0].Facts[host.FactOverloaded] == true {
		weight = diagnose.Strong
	}
	c.For = append(diagnose.Clues(weight, load), diagnose.Hints(short)...)
	killed := "the kubelet killed it"
	if diagnose.Num(short, facts.Restarts) > 1 {
		killed = "the kubelet keeps killing it"
	}
	c.Says = fmt.Sprintf("load %.0f on %.0f CPUs makes calico-node's start outlast the %v its probe allows, so %s",
		diagnose.Num(load, host.FactLoad), diagnose.Num(load, host.FactCPUs), diagnose.Seconds(budgetOf(f)), killed)
	e, ok := estimateOf(f)
	if ok && e.way() > e.budget { // the distance alone is too much
		c.Against = append(c.Against, diagnose.Clue{Finding: e.Finding, Weight: diagnose.Strong})
	} else if ok && e.work > e.budget/2 {
		c.Says += fmt.Sprintf(" (its own work takes %.0f times as long: about %v in all)", e.stretch, diagnose.Seconds(e.startup))
		c.For, c.Args = append(c.For, diagnose.Clue{Finding: e.Finding, Weight: diagnose.Hint}), timeFor(f, e.startup)
	}
	var calm []diagnose.Finding
	for _, r := range evidence.Loads(f.Elsewhere(host.NodeLoad.ID)) {
		if eachCPU(r)*4 < eachCPU(load[0]) {
			calm = append(calm, r)
		}
	}
	if len(calm) > 0 {
		c.Says += fmt.Sprintf("; the load of %s is %.1f", calm[0].Node, diagnose.Num(calm, host.FactLoad))
		c.For = append(c.For, diagnose.Hints(calm)...)
	}
	if foreign := f.With(felix.FelixLive.ID, probe.FactReason, "foreign-address"); len(foreign) > 0 {
		c.Says += fmt.Sprintf("; besides, %s", foreign[0].Saw)
		c.Against = append(c.Against, diagnose.Hints(foreign)...)
	}
	if n := len(refusedAt(f)); n > 0 {
		c.Says += fmt.Sprintf("; the refused BGP sessions of %d peers follow from that", n)
	}
	return []diagnose.Case{c}
}

// refusedAt returns the nodes whose BGP sessions with this one are refused: port 179 is closed while calico-node is
// down.
func refusedAt(f diagnose.Findings) []string {
	var out []string
	for _, r := range f.Elsewhere(bgp.BGPSession.ID) {
		if diagnose.IsBad(r.Status) && strings.HasPrefix(r.Target, f.Node+" ") && !slices.Contains(out, r.Node) {
			out = append(out, r.Node)
		}
	}
	return out
}

// startFarDatastore matches a start that the distance to the datastore makes too slow (incident 004b).
func startFarDatastore(f diagnose.Findings) []diagnose.Case {
	e, ok := estimateOf(f)
	if !ok || e.way() < e.budget/2 || e.Status == probe.OK {
		return nil
	}
	short := evidence.CutShort(f)
	which := "each"
	if len(short) == 0 { // the last start was faster
		which = "the next"
	}
	c := diagnose.Case{
		Says: fmt.Sprintf("%s start of calico-node makes %.0f calls to the datastore with a round trip of %v, %v in all, but its probe allows %v; %v would suffice",
			which, e.calls, diagnose.Milliseconds(e.far), diagnose.Seconds(e.startup), diagnose.Seconds(e.budget),
			diagnose.Seconds(e.startup*1.5)),
		Args: timeFor(f, e.startup), For: diagnose.Hints([]diagnose.Finding{e.Finding}), Covers: evidence.CalicoDown,
	}
	if e.way() > e.budget {
		c.For[0].Weight = diagnose.Strong
	}
	if len(short) == 0 {
		c.For[0].Weight = diagnose.Hint
	}
	c.For = append(c.For, diagnose.Hints(short)...)
	for _, r := range f.Of(datastore.DatastoreLatency.ID) {
		if connect, _ := r.Facts.Num(probe.FactConnect); connect > e.far/2 {
			c.For = append(c.For, diagnose.Clue{Finding: r, Weight: diagnose.Hint})
			break
		}
	}
	for _, r := range f.Elsewhere(start.StartupBudget.ID) {
		if far, ok := r.Facts.Num(start.FactFar); ok && far*3 < e.far {
			c.Says += fmt.Sprintf("; from %s it is %v", r.Node, diagnose.Milliseconds(far))
			c.For = append(c.For, diagnose.Clue{Finding: r, Weight: diagnose.Hint})
			break
		}
	}
	return []diagnose.Case{c}
}

// startOutlastsBudget matches incidents 002 and 004b by the API alone: a failed liveness probe got calico-node killed.
func startOutlastsBudget(f diagnose.Findings) []diagnose.Case {
	short := f.Failed(facts.CheckCalicoBudget)
	if len(short) == 0 {
		return nil
	}
	c := diagnose.Case{
		Says: fmt.Sprintf("calico-node's start outlasts the %v its %s probe allows: it was killed after %v, because the node is overloaded, the datastore is far away, or the health port is elsewhere",
			diagnose.Seconds(budgetOf(f)), short[0].Facts.Str(facts.BudgetProbe),
			diagnose.Seconds(diagnose.Num(short, facts.Lived))),
		Args: timeFor(f, 4*budgetOf(f)), For: diagnose.Suggests(short), Covers: evidence.CalicoDown,
	}
	if e, ok := estimateOf(f); ok && e.Status == probe.OK {
		c.Says = fmt.Sprintf("calico-node was killed after %v, when its probe's budget of %v ended, although a start takes about %v on this node now", diagnose.Seconds(diagnose.Num(short, facts.Lived)), diagnose.Seconds(budgetOf(f)), diagnose.Seconds(e.startup))
		c.Against = append(c.Against, diagnose.Clue{Finding: e.Finding, Weight: diagnose.Hint})
	}
	return []diagnose.Case{c}
}
