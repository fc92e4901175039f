package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// calicoOutOfMemory is a memory limit that calico-node does not fit into.
func calicoOutOfMemory(f diagnose.Findings) []diagnose.Case {
	ended, inside := f.With(facts.CheckCalicoBudget, facts.APIReason, "OOMKilled"), evidence.KilledForMemory(f)
	ended = slices.DeleteFunc(ended, func(r diagnose.Finding) bool { return r.Facts[facts.Over] == true })
	if len(f.Bad(facts.CheckCalicoPod)) == 0 {
		ended = nil
	}
	killed := append(inside, ended...)
	limit, known := memoryLimit(f)
	if len(killed) == 0 || known && limit == 0 || len(f.With(host.NodeMemory.ID, host.FactLimited, false)) > 0 {
		return nil
	}
	short, pressure := evidence.ShortOfMemory(f)
	c := diagnose.Case{
		Says: "calico-node on {node} was killed for memory: " + killed[0].Saw, For: diagnose.Suggests(killed),
		// Then it may have been the whole node's want.
		Against: diagnose.Suggests(slices.Concat(pressure, short)),
		Covers:  append(diagnose.Covers(host.NodeMemory.ID), evidence.CalicoDown...),
		Args:    map[string]diagnose.Arg{"memory": diagnose.NumberArg(1024)},
	}
	if len(ended) > 0 {
		c.Says = fmt.Sprintf("calico-node was killed for want of memory %v after its start (OOMKilled)",
			diagnose.Seconds(diagnose.Num(ended, facts.Lived)))
	}
	// The counter is of the container's whole life, and of any killer: it is proof of a container that is not well now,
	// on a node that has memory.
	limited := func(r diagnose.Finding) bool { return r.Facts[host.FactLimited] == true }
	if slices.ContainsFunc(inside, limited) && len(f.Bad(facts.CheckCalicoPod)) > 0 && len(short)+len(pressure) == 0 {
		c.For[0].Weight = diagnose.Proof
	}
	if known {
		c.Says += fmt.Sprintf("; its limit is %.0f MiB", limit/(1<<20))
		c.For[0].Weight, c.Args["memory"] = diagnose.Proof, diagnose.NumberArg(max(1024, 2*limit/(1<<20)))
	}
	c.For = append(c.For, diagnose.Shows(slices.DeleteFunc(diagnose.Keep(f.Of(host.NodeMemory.ID), diagnose.About("")),
		func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) }))...)
	return []diagnose.Case{c}
}

// memoryLimit is that of calico-node's container in bytes, 0 without one; false when
// it is not known.
func memoryLimit(f diagnose.Findings) (float64, bool) {
	for _, r := range f.Of(facts.CheckCalicoPod) {
		if n, ok := r.Facts.Num(facts.Memory); ok {
			return n, true
		}
	}
	return 0, false
}

// calicoCPULimit is a CPU limit that starves Felix on an idle node
// (projectcalico/calico#3420).
func calicoCPULimit(f diagnose.Findings) []diagnose.Case {
	var held []diagnose.Finding
	for _, r := range f.Bad(host.NodeLoad.ID) {
		if _, ok := r.Facts.Num(host.FactThrottled); ok {
			held = append(held, r)
		}
	}
	if len(held) == 0 {
		return lowCPULimit(f)
	}
	c := diagnose.Case{
		Says: fmt.Sprintf("calico-node was stopped at its CPU limit in %.0f %% of all periods",
			diagnose.Num(held, host.FactThrottled)),
		For: diagnose.Suggests(held), Covers: diagnose.Covers(facts.CheckCalicoPod, facts.CheckCalicoBudget,
			felix.FelixLive.ID,
			felix.FelixReady.ID),
	}
	late := append(f.With(felix.FelixLive.ID, probe.FactReason, "timeout"), f.Failed(facts.CheckCalicoBudget)...)
	if len(late) == 0 { // it lives, and comes to nothing
		late = append(f.Failed(felix.FelixReady.ID), f.Bad(facts.CheckCalicoPod)...)
	}
	c.For = append(c.For, diagnose.Hints(late)...)
	if load := evidence.Loads(f.Failed(host.NodeLoad.ID)); len(load) > 0 {
		c.Against = diagnose.Hints(load)
	}
	return []diagnose.Case{c}
}

// scanty is a CPU limit, in thousandths of a CPU, with which calico-node does not get through its own probes; its
// request is 250 by default.
const scanty = 150

// scantyCPU are the results about a calico-node that is not well and has such a limit.
func scantyCPU(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(f.Bad(facts.CheckCalicoPod), func(r diagnose.Finding) bool {
		limit, has := r.Facts.Num(facts.CPULimit)
		return has && limit < scanty
	})
}

// lowCPULimit is a calico-node that is not well and has such a limit, where nobody counted how often it was stopped:
// node-load did not run, or the container was away when it did.
func lowCPULimit(f diagnose.Findings) []diagnose.Case {
	low := scantyCPU(f)
	counted := slices.ContainsFunc(f.Of(host.NodeLoad.ID), func(r diagnose.Finding) bool {
		_, has := r.Facts.Num(host.FactThrottled)
		return has
	})
	if len(low) == 0 || counted {
		return nil
	}
	limit, _ := low[0].Facts.Num(facts.CPULimit)
	return []diagnose.Case{{
		Says: fmt.Sprintf("calico-node may use %.0fm of a CPU and is not well: that is too little to start and to answer its probes", limit),
		For:  diagnose.Suggests(low[:1]), Covers: evidence.CalicoDown,
	}}
}

// calicoUnprivileged is projectcalico/calico#1176.
func calicoUnprivileged(f diagnose.Findings) []diagnose.Case {
	lacks := diagnose.Keep(f.Bad(facts.CheckCalicoPod),
		func(r diagnose.Finding) bool { return r.Facts[facts.Unprivileged] == true })
	if len(lacks) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says:   "calico-node on {node} is neither privileged nor has it CAP_NET_ADMIN, and is not well",
		For:    append(diagnose.Proves(lacks[:1]), diagnose.Shows(f.Bad(logs.CalicoLog.ID))...),
		Covers: append(diagnose.Covers(logs.CalicoLog.ID), evidence.CalicoDown...),
	}}
}

// calicoNoToken is a calico-node that has nothing to show to the API server.
func calicoNoToken(f diagnose.Findings) []diagnose.Case {
	lacks := diagnose.Keep(f.Bad(facts.CheckCalicoPod),
		func(r diagnose.Finding) bool { return r.Facts[facts.NoToken] == true })
	if len(lacks) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: "calico-node's pod on {node} has no token of its account mounted (automountServiceAccountToken: false), and does not get up",
		For:  append(diagnose.Proves(lacks[:1]), diagnose.Shows(f.Bad(logs.CalicoLog.ID))...),
		Covers: append(diagnose.Covers(logs.CalicoLog.ID, facts.CheckNodeReady, facts.CheckNodeTaints),
			evidence.CalicoDown...),
	}}
}
