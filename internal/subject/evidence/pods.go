package evidence

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// NotReadyNetwork is the runtime's own word for it.
func NotReadyNetwork(f diagnose.Findings) []diagnose.Finding {
	return f.Where(func(r diagnose.Finding) bool {
		return (r.Check == runtime.ContainerdHealth.ID || r.Check == runtime.CRIHealth.ID) &&
			slices.Contains(diagnose.ListOf(r, runtime.FactNotReady), "NetworkReady")
	})
}

// PodsUnconnected are pods that the CNI plugin fails, or that lack its configuration.
var PodsUnconnected = []diagnose.Cover{{Check: facts.CheckPodsStart, About: facts.StartsCNI},
	{Check: facts.CheckPodsStart, About: facts.StartsNetwork}, {Check: facts.CheckPodsEnd, About: facts.EndsNotCNI}}

// WaitingPods are the bad groups of pods that wait for one of these, the largest first, and the
// probe's own pod where the kubelet says why: that the runtime does not answer is what runtime-stuck says.
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

// Said weighs what events say of pods: who may create events in a namespace can write them, so the pods of
// one tenant are no proof. The probe's own pod is, and pods of several namespaces or the cluster's own.
func Said(pods []diagnose.Finding) []diagnose.Clue {
	sure := slices.ContainsFunc(pods, func(r diagnose.Finding) bool {
		return Corroborated(r) || r.Check == probe.CheckPlaced || r.Check == facts.CheckCalicoPod
	})
	if sure {
		return diagnose.Proves(pods)
	}
	return diagnose.Suggests(pods)
}

// QuotedPods is one case of what most pods wait for, in the kubelet's words.
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

// KubeletSaid are the kubelet's own words for why its node is not ready.
func KubeletSaid(f diagnose.Findings, wanted ...string) []diagnose.Finding {
	return f.Where(func(r diagnose.Finding) bool {
		return r.Check == facts.CheckNodeReady && slices.ContainsFunc(diagnose.ListOf(r, facts.Unready),
			func(w string) bool { return slices.Contains(wanted, w) })
	})
}

// Obstructed are the pods, calico-node's among them, for whose sandbox or containers one of these is in the way,
// and where that is.
func Obstructed(f diagnose.Findings, obstacles ...string) (pods []diagnose.Finding, at string) {
	of := func(r diagnose.Finding) bool { return slices.Contains(obstacles, r.Facts.Str(facts.Obstacle)) }
	pods = slices.Concat(diagnose.Keep(WaitingPods(f, facts.StartsSandbox, facts.StartsContainer, facts.StartsCNI), of),
		diagnose.Keep(f.Bad(facts.CheckCalicoPod), of))
	if len(pods) > 0 {
		at = pods[0].Facts.Str(facts.ObstacleAt)
	}
	return pods, at
}

// KeptDown is what follows where such pods do not start: for calico-node, all that it does not begin.
func KeptDown(pods []diagnose.Finding) []diagnose.Cover {
	out := diagnose.Covers(probe.CheckPlaced)
	if slices.ContainsFunc(pods, func(r diagnose.Finding) bool { return r.Check == facts.CheckCalicoPod }) {
		out = slices.Concat(out, CalicoDown, NotStarted)
	}
	return out
}
