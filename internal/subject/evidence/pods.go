package evidence

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// NotReadyNetwork returns the findings in which the runtime reports NetworkReady as false.
func NotReadyNetwork(f diagnose.Findings) []diagnose.Finding {
	return f.Where(func(r diagnose.Finding) bool {
		return (r.Check == runtime.ContainerdHealth.ID || r.Check == runtime.CRIHealth.ID) &&
			slices.Contains(diagnose.ListOf(r, runtime.FactNotReady), "NetworkReady")
	})
}

// PodsUnconnected covers pods whose CNI plugin fails or has no configuration.
var PodsUnconnected = []diagnose.Cover{{Check: facts.CheckPodsStart, About: facts.StartsCNI},
	{Check: facts.CheckPodsStart, About: facts.StartsNetwork}, {Check: facts.CheckPodsEnd, About: facts.EndsNotCNI}}

// WaitingPods returns the groups of pods that wait for one of the given reasons, the largest first. The probe's own pod
// counts if the kubelet reports why it waits. A runtime that does not answer is excluded: that is runtime-stuck.
func WaitingPods(f diagnose.Findings, starts ...string) []diagnose.Finding {
	var out []diagnose.Finding
	for _, word := range starts {
		out = append(out, diagnose.Keep(f.With(facts.CheckPodsStart, facts.Starts, word),
			func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) })...)
		out = append(out, diagnose.Keep(f.With(probe.CheckPlaced, facts.Starts, word),
			func(r diagnose.Finding) bool {
				return (r.Status == probe.Unknown || r.Status == probe.Fail) && // Fail: another access method worked
					r.Facts.Str(facts.Obstacle) != facts.ObstacleSilence
			})...)
	}
	return out
}

// Said weighs events of pods. Any user who may create events in a namespace can forge them, so the pods of one tenant
// prove nothing. The probe's pod, pods in several namespaces and system pods are proof.
func Said(pods []diagnose.Finding) []diagnose.Clue {
	sure := slices.ContainsFunc(pods, func(r diagnose.Finding) bool {
		return Corroborated(r) || r.Check == probe.CheckPlaced || r.Check == facts.CheckCalicoPod
	})
	if sure {
		return diagnose.Proves(pods)
	}
	return diagnose.Suggests(pods)
}

// QuotedPods builds one case from the reason for which most pods wait, quoting the kubelet.
func QuotedPods(groups []diagnose.Finding, what string) []diagnose.Case {
	if len(groups) == 0 {
		return nil
	}
	n, counted := groups[0].Facts.Num(facts.Pods)
	who := diagnose.CountOf(n, "new pod")
	if !counted {
		who = "new pods, including the probe's"
	}
	return []diagnose.Case{{
		Says: fmt.Sprintf("%s on {node} for %s: %s", what, who, groups[0].Facts.Str(facts.Message)),
		For:  diagnose.Suggests(groups),
	}}
}

// KubeletSaid returns the findings in which the kubelet reports one of these reasons for a node that is not ready.
func KubeletSaid(f diagnose.Findings, wanted ...string) []diagnose.Finding {
	return f.Where(func(r diagnose.Finding) bool {
		return r.Check == facts.CheckNodeReady && slices.ContainsFunc(diagnose.ListOf(r, facts.Unready),
			func(w string) bool { return slices.Contains(wanted, w) })
	})
}

// Obstructed returns the pods, including calico-node, whose sandbox or containers an obstacle keeps from starting, and
// the obstacle's place.
func Obstructed(f diagnose.Findings, obstacles ...string) (pods []diagnose.Finding, at string) {
	of := func(r diagnose.Finding) bool { return slices.Contains(obstacles, r.Facts.Str(facts.Obstacle)) }
	pods = slices.Concat(diagnose.Keep(WaitingPods(f, facts.StartsSandbox, facts.StartsContainer, facts.StartsCNI), of),
		diagnose.Keep(f.Bad(facts.CheckCalicoPod), of))
	if len(pods) > 0 {
		at = pods[0].Facts.Str(facts.ObstacleAt)
	}
	return pods, at
}

// KeptDown covers the consequences if such pods do not start: for calico-node, everything that it provides.
func KeptDown(pods []diagnose.Finding) []diagnose.Cover {
	out := diagnose.Covers(probe.CheckPlaced)
	if slices.ContainsFunc(pods, func(r diagnose.Finding) bool { return r.Check == facts.CheckCalicoPod }) {
		out = slices.Concat(out, CalicoDown, NotStarted)
	}
	return out
}
