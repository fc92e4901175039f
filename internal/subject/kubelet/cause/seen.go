package cause

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// kubeletLives are what only a kubelet that works can have done: a session with a probe that leads through
// it (pod, ephemeral, exec) and did not break off, its own word that it cannot ask the API server, and an
// answer to another node.
func kubeletLives(f diagnose.Findings) []diagnose.Finding {
	through := diagnose.Keep(diagnose.Good(f, probe.CheckPlaced), func(r diagnose.Finding) bool {
		broke := func(a diagnose.Finding) bool { return a.Way == r.Way && a.Status != probe.OK }
		return slices.Contains([]string{"pod", "ephemeral", "exec"}, r.Way) &&
			!slices.ContainsFunc(f.Of(probe.CheckAnswered), broke)
	})
	return slices.Concat(evidence.NotPlaced(f, facts.ReasonUnasked), through,
		speaks(evidence.FromOutside(f, evidence.KubeletPort).Open, true))
}

// speaks are the open ports where a request was answered, or was not.
func speaks(open []diagnose.Finding, answered bool) []diagnose.Finding {
	return diagnose.Keep(open, func(r diagnose.Finding) bool { return r.Facts[link.FactSpeaks] == answered })
}
