package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// calicoOutOfMemory matches a calico-node that exceeds its memory limit.
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
		Says: "calico-node on {node} was OOM-killed: " + killed[0].Saw, For: diagnose.Suggests(killed),
		// Then the whole node may have run out of memory.
		Against: diagnose.Suggests(slices.Concat(pressure, short)),
		Covers:  append(diagnose.Covers(host.NodeMemory.ID), evidence.CalicoDown...),
		Args:    map[string]diagnose.Arg{"memory": diagnose.NumberArg(1024)},
	}
	if len(ended) > 0 {
		c.Says = fmt.Sprintf("calico-node was OOM-killed %v after its start",
			diagnose.Seconds(diagnose.Num(ended, facts.Lived)))
	}
	// The counter covers the container's whole life and any reason for a kill. So it is proof only if the container is
	// unhealthy now and the node has free memory.
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

// memoryLimit returns the memory limit of calico-node's container in bytes (0 = none), and whether it is known.
func memoryLimit(f diagnose.Findings) (float64, bool) {
	for _, r := range f.Of(facts.CheckCalicoPod) {
		if n, ok := r.Facts.Num(facts.Memory); ok {
			return n, true
		}
	}
	return 0, false
}
