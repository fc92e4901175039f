package cause

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// withoutCRIByKubelet is a runtime without the part that the kubelet asks, as the kubelet was told when the probe
// was to go into a container.
func withoutCRIByKubelet(f diagnose.Findings) []diagnose.Case {
	told := evidence.NotPlaced(f, facts.ReasonNoCRI)
	if len(told) == 0 || f.Answered(runtime.ContainerdHealth.ID) {
		return nil
	}
	return []diagnose.Case{{
		Says:   "the container runtime on {node} runs, and the part of it that the kubelet asks (CRI) is not loaded, by disabled_plugins in containerd's configuration, or by an error in its settings for CRI such as a default_runtime_name that it does not define: " + told[0].Saw,
		For:    slices.Concat(diagnose.Proves(told[:1]), diagnose.Shows(evidence.KubeletSaid(f, facts.UnreadyRuntime))),
		Covers: runtimeGone,
	}}
}

// cniConfigElsewhere is projectcalico/calico#4308.
func cniConfigElsewhere(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Failed(cni.CNIConfig.ID) {
		folder, file := r.Facts.Str(cni.FactFolder), r.Facts.Str(cni.FactBehind)
		if bin := r.Facts.Str(cni.FactBinaries); bin != "" {
			folder, file = bin, r.Facts.Str(probe.FactFile)
		} else if diagnose.ReasonOf(r) != cni.CNIElsewhere {
			continue
		}
		out = append(out, diagnose.Case{
			Says: "no new pod gets a network on {node}: " + r.Saw,
			Args: map[string]diagnose.Arg{"folder": diagnose.FileArg(folder), "file": diagnose.FileArg(file)},
			For: slices.Concat(diagnose.Proves([]diagnose.Finding{r}),
				diagnose.Shows(evidence.KubeletSaid(f, facts.UnreadyNetwork)),
				diagnose.Shows(evidence.NotReadyNetwork(f))),
			Covers: append(diagnose.Covers(cni.CNIConfig.ID, runtime.ContainerdHealth.ID, runtime.CRIHealth.ID,
				facts.CheckNodeReady,
				facts.CheckNodeTaints), evidence.PodsUnconnected...),
		})
	}
	return out
}

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

// snapshotterMissing is a runtime whose images nobody unpacks.
func snapshotterMissing(f diagnose.Findings) []diagnose.Case {
	pods, name := evidence.Obstructed(f, facts.ObstacleSnapshotter)
	if len(pods) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: fmt.Sprintf("no pod can start on {node}: the runtime's snapshotter %s is not loaded or does not answer: %s", name, pods[0].Facts.Str(facts.Message)),
		For:  evidence.Said(pods), Covers: diagnose.Covers(probe.CheckPlaced),
	}}
}

// saysNoSocket is what the kubelet says, by way of the API server, where containerd's socket is gone or deserted.
var saysNoSocket = regexp.MustCompile(`dial unix \S*containerd\S*\.sock: connect: (?:no such file or directory|connection refused)`)

// containerdUnheard is a containerd that is not asked by anybody but the kubelet, which finds nobody at its socket.
func containerdUnheard(f diagnose.Findings) []diagnose.Case {
	said := evidence.InWords(evidence.NotPlaced(f, facts.ReasonRuntime), saysNoSocket)
	if len(said) == 0 {
		return nil
	}
	return []diagnose.Case{{For: diagnose.Suggests(said[:1]), Covers: runtimeGone,
		Says: "containerd does not run on {node}: the kubelet finds nobody at its socket: " + said[0].Saw}}
}
