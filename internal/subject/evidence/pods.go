package evidence

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// NotReadyNetwork returns the results in which the runtime itself reports that its network is not ready.
func NotReadyNetwork(f diagnose.Findings) []diagnose.Finding {
	return f.Where(func(r diagnose.Finding) bool {
		return (r.Check == runtime.ContainerdHealth.ID || r.Check == runtime.CRIHealth.ID) &&
			slices.Contains(diagnose.ListOf(r, runtime.FactNotReady), "NetworkReady")
	})
}

// PodsUnconnected covers the pods for which the CNI plugin fails, or its configuration is missing.
var PodsUnconnected = []diagnose.Cover{{Check: facts.CheckPodsStart, About: facts.StartsCNI},
	{Check: facts.CheckPodsStart, About: facts.StartsNetwork}, {Check: facts.CheckPodsEnd, About: facts.EndsNotCNI}}

// WaitingPods returns the bad groups of pods that wait for one of these, the largest first. It adds the probe's own
// pod if the kubelet reports why that waits. A runtime that does not answer is left to cause runtime-stuck.
func WaitingPods(f diagnose.Findings, starts ...string) []diagnose.Finding {
	var out []diagnose.Finding
	for _, word := range starts {
		out = append(out, diagnose.Keep(f.With(facts.CheckPodsStart, facts.Starts, word),
			func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) })...)
		out = append(out, diagnose.Keep(f.With(probe.CheckPlaced, facts.Starts, word),
			func(r diagnose.Finding) bool {
				return r.Status == probe.Unknown && r.Facts.Str(facts.Obstacle) != facts.ObstacleSilence
			})...)
	}
	return out
}

// Said weighs what events report about pods. Anyone with the right to create events in a namespace can forge them, so
// the pods of one tenant prove nothing. The probe's own pod does, and so do pods of several namespaces or of the
// cluster itself.
func Said(pods []diagnose.Finding) []diagnose.Clue {
	sure := slices.ContainsFunc(pods, func(r diagnose.Finding) bool {
		return Corroborated(r) || r.Check == probe.CheckPlaced || r.Check == facts.CheckCalicoPod
	})
	if sure {
		return diagnose.Proves(pods)
	}
	return diagnose.Suggests(pods)
}

// QuotedPods returns one case: what most pods wait for, in the kubelet's words.
func QuotedPods(groups []diagnose.Finding, what string) []diagnose.Case {
	if len(groups) == 0 {
		return nil
	}
	n, counted := groups[0].Facts.Num(facts.Pods)
	who := diagnose.CountOf(n, "new pod")
	if !counted {
		who = "new pods, the probe's for one"
	}
	return []diagnose.Case{{
		Says: fmt.Sprintf("%s on {node} for %s: %s", what, who, groups[0].Facts.Str(facts.Message)),
		For:  diagnose.Suggests(groups),
	}}
}

// KubeletSaid returns the results in which the kubelet itself reports why its node is not ready.
func KubeletSaid(f diagnose.Findings, wanted ...string) []diagnose.Finding {
	return f.Where(func(r diagnose.Finding) bool {
		return r.Check == facts.CheckNodeReady && slices.ContainsFunc(diagnose.ListOf(r, facts.Unready),
			func(w string) bool { return slices.Contains(wanted, w) })
	})
}

// Obstructed returns the pods, including calico-node's, with one of these obstacles in the way of their sandbox or
// containers, and the obstacle's place.
func Obstructed(f diagnose.Findings, obstacles ...string) (pods []diagnose.Finding, at string) {
	of := func(r diagnose.Finding) bool { return slices.Contains(obstacles, r.Facts.Str(facts.Obstacle)) }
	pods = slices.Concat(diagnose.Keep(WaitingPods(f, facts.StartsSandbox, facts.StartsContainer, facts.StartsCNI), of),
		diagnose.Keep(f.Bad(facts.CheckCalicoPod), of))
	if len(pods) > 0 {
		at = pods[0].Facts.Str(facts.ObstacleAt)
	}
	return pods, at
}

// KeptDown covers the results that follow if such pods do not start: for calico-node, everything that needs its start.
func KeptDown(pods []diagnose.Finding) []diagnose.Cover {
	out := diagnose.Covers(probe.CheckPlaced)
	if slices.ContainsFunc(pods, func(r diagnose.Finding) bool { return r.Check == facts.CheckCalicoPod }) {
		out = slices.Concat(out, CalicoDown, NotStarted)
	}
	return out
}
