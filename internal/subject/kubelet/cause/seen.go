package cause

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// kubeletLives returns the findings that only a working kubelet can produce: an unbroken probe session through it (pod,
// ephemeral, exec), its report of an unreachable API server, or an answer to a neighbour.
func kubeletLives(f diagnose.Findings) []diagnose.Finding {
	through := diagnose.Keep(diagnose.Good(f, probe.CheckPlaced), func(r diagnose.Finding) bool {
		broke := func(a diagnose.Finding) bool { return a.Method == r.Method && a.Status != probe.OK }
		return slices.Contains([]string{"pod", "ephemeral", "exec"}, r.Method) &&
			!slices.ContainsFunc(f.Of(probe.CheckAnswered), broke)
	})
	return slices.Concat(evidence.NotPlaced(f, facts.ReasonNoAuthorizer), through,
		speaks(evidence.FromOutside(f, evidence.KubeletPort).Open, true))
}

// speaks returns the open ports whose requests were answered, or with answered=false the silent open ports.
func speaks(open []diagnose.Finding, answered bool) []diagnose.Finding {
	return diagnose.Keep(open, func(r diagnose.Finding) bool { return r.Facts[link.FactSpeaks] == answered })
}
