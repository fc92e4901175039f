package evidence

import (
	"regexp"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Starved returns checks that timed out before they began to run. It returns none if they are few: then the thing that
// they check may hang, and not the node.
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

// InWords returns the findings with a text that matches a pattern.
func InWords(of []diagnose.Finding, words *regexp.Regexp) []diagnose.Finding {
	return diagnose.Keep(of, func(r diagnose.Finding) bool { return words.MatchString(r.Saw) })
}

// ShortOfMemory returns the signs of a node short of memory: the node's own count, and the kubelet's condition.
func ShortOfMemory(f diagnose.Findings) (short, pressure []diagnose.Finding) {
	return diagnose.Keep(f.Bad(host.NodeMemory.ID), diagnose.About("")),
		diagnose.Keep(f.Failed(facts.CheckNodeReady), diagnose.About("MemoryPressure"))
}

// KilledForMemory returns the signs that a process of calico-node was OOM-killed.
func KilledForMemory(f diagnose.Findings) []diagnose.Finding {
	killed := slices.Concat(f.With(facts.CheckCalicoPod, facts.LastEnd, "OOMKilled"),
		diagnose.Keep(f.Bad(host.NodeMemory.ID), diagnose.About(host.TargetCalicoMemory)))
	return slices.DeleteFunc(killed, func(r diagnose.Finding) bool { return !diagnose.IsBad(r.Status) })
}
