package evidence

import (
	"regexp"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Starved returns the checks that timed out before they began to answer, which happens if the probe gets no CPU time.
// With fewer than eight such checks it returns nothing, because their targets may hang.
func Starved(f diagnose.Findings) []diagnose.Finding {
	const many = 8
	var out []diagnose.Finding
	for _, r := range f.All {
		if r.Node == f.Node && r.Status == probe.Unknown && diagnose.ReasonOf(r) == "blocked" {
			out = append(out, r)
		}
	}
	if len(diagnose.ChecksOf(out)) < many {
		return nil
	}
	return out
}

// InWords returns the findings whose Saw matches a pattern.
func InWords(of []diagnose.Finding, words *regexp.Regexp) []diagnose.Finding {
	return diagnose.Keep(of, func(r diagnose.Finding) bool { return words.MatchString(r.Saw) })
}

// ShortOfMemory returns the findings of short memory, by the node's memory statistics and the kubelet's MemoryPressure.
func ShortOfMemory(f diagnose.Findings) (short, pressure []diagnose.Finding) {
	return diagnose.Keep(f.Bad(host.NodeMemory.ID), diagnose.About("")),
		diagnose.Keep(f.Failed(facts.CheckNodeReady), diagnose.About("MemoryPressure"))
}

// KilledForMemory returns the signs that the kernel OOM-killed a process of calico-node.
func KilledForMemory(f diagnose.Findings) []diagnose.Finding {
	killed := slices.Concat(f.With(facts.CheckCalicoPod, facts.LastEnd, "OOMKilled"),
		diagnose.Keep(f.Bad(host.NodeMemory.ID), diagnose.About(host.TargetCalicoMemory)))
	return slices.DeleteFunc(killed, func(r diagnose.Finding) bool { return !diagnose.IsBad(r.Status) })
}
