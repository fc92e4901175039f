package evidence

import (
	"regexp"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Starved are checks that had not even begun to answer when their time was over; none
// where they are so few that what they ask about may be what hangs.
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

// InWords are the findings whose words a pattern fits.
func InWords(of []diagnose.Finding, words *regexp.Regexp) []diagnose.Finding {
	return diagnose.Keep(of, func(r diagnose.Finding) bool { return words.MatchString(r.Saw) })
}

// ShortOfMemory is the node's want, by its own count and by the kubelet's word.
func ShortOfMemory(f diagnose.Findings) (short, pressure []diagnose.Finding) {
	return diagnose.Keep(f.Bad(host.NodeMemory.ID), diagnose.About("")),
		diagnose.Keep(f.Failed(facts.CheckNodeReady), diagnose.About("MemoryPressure"))
}

// KilledForMemory are the signs that something of calico-node's was.
func KilledForMemory(f diagnose.Findings) []diagnose.Finding {
	killed := slices.Concat(f.With(facts.CheckCalicoPod, facts.LastEnd, "OOMKilled"),
		diagnose.Keep(f.Bad(host.NodeMemory.ID), diagnose.About(host.TargetCalicoMemory)))
	return slices.DeleteFunc(killed, func(r diagnose.Finding) bool { return !diagnose.IsBad(r.Status) })
}
