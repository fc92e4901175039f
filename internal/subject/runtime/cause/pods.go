package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// limitReached is containerd/cri#448, Azure/aks-engine#1270 and their like.
func limitReached(f diagnose.Findings) []diagnose.Case {
	var told []diagnose.Finding
	for _, r := range evidence.WaitingPods(f, facts.StartsSandbox, facts.StartsCNI, facts.StartsContainer) {
		word := r.Facts.Str(facts.Obstacle)
		if word == facts.ObstacleOpenFiles || word == facts.ObstacleProcesses ||
			word == facts.ObstacleInit && r.Check == probe.CheckPlaced { // whose memory limit is large enough
			told = append(told, r)
		}
	}
	full := f.Failed(host.NodeLimits.ID)
	covers := append(diagnose.Covers(host.NodeLimits.ID, probe.CheckPlaced), evidence.PodsUnconnected...)
	if len(full) == 0 && len(told) == 0 {
		return nil
	}
	if len(full) > 0 {
		return []diagnose.Case{{
			Says: fmt.Sprintf("%s on {node} is at its limit: %s", full[0].Facts.Str(host.FactLimitOf), full[0].Saw),
			For:  slices.Concat(diagnose.Proves(full), diagnose.Shows(told)), Covers: append(covers, evidence.CalicoDown...),
		}}
	}
	weighed := evidence.Said(told)
	if told[0].Facts.Str(facts.Obstacle) == facts.ObstacleInit { // which may die for another reason
		weighed = diagnose.Suggests(told)
	}
	what := map[string]string{facts.ObstacleOpenFiles: "open files", facts.ObstacleProcesses: "processes or threads",
		facts.ObstacleInit: "processes or threads, as it seems"}
	return []diagnose.Case{{
		Says: fmt.Sprintf("the container runtime of {node}, or what it starts for a pod, may have no more %s: %s",
			what[told[0].Facts.Str(facts.Obstacle)], told[0].Facts.Str(facts.Message)),
		For: slices.Concat(weighed, diagnose.Hints(f.Bad(host.NodeLimits.ID))), Covers: covers,
	}}
}

// pauseImageMissing is kubernetes/kubernetes#72295.
func pauseImageMissing(f diagnose.Findings) []diagnose.Case {
	pods, image := evidence.Obstructed(f, facts.ObstaclePauseImage)
	if len(pods) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: fmt.Sprintf("no pod can start on {node}: the image of sandboxes, %s, is not there and cannot be pulled: %s%s", image, refusedBy(pods[0], image), pods[0].Facts.Str(facts.Message)),
		For:  evidence.Said(pods), Covers: evidence.KeptDown(pods),
	}}
}

// refusedBy is the beginning of a sentence about an image that a registry does not give.
func refusedBy(r diagnose.Finding, image string) string {
	refusal := evidence.RefusedWords[facts.PullFailed(r.Facts.Str(facts.Message))]
	if refusal == "" {
		return ""
	}
	return fmt.Sprintf("registry %s: %s: ", facts.RegistryOf(image), refusal)
}
