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
	"github.com/calico-probe/calico-probe/internal/subject/start"
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
var cniConfigElsewhere = &diagnose.Rule{
	ID: "cni-config-elsewhere", Layer: diagnose.LayerCalico,
	Title: "the runtime reads CNI configurations from a directory that Calico does not write to",
	Doc: `containerd and CRI-O have the folder of network configurations in their own configuration (conf_dir; network_dir), and that of the plugins (bin_dir; plugin_dirs). Calico's install-cni writes into /etc/cni/net.d and /opt/cni/bin of the node, or where the Installation or the volumes of its DaemonSet say. Where a configuration of containerd's was made anew, or taken from k3s, RKE2 or MicroK8s, the two differ: "cni plugin not initialized", and the node is NotReady, with everything of Calico's well. Starting calico-node anew changes nothing.
Told from a file that was removed by the file, which is there in the other folder.`,
	Fix: probe.Fix{
		Says: "Have both use one folder: the runtime's configuration, or Calico's (the volumes of the DaemonSet; cniConfDir and cniBinDir of the Installation).",
		Manifest: []string{
			"ssh {node} 'sudo crictl info | grep -i -e confDir -e binDir; grep -rn -e conf_dir -e bin_dir /etc/containerd'",
			"ssh {node} ls -la {folder} {file}",
			"kubectl -n {namespace} get ds {daemonset} -o yaml | grep -B2 -A3 -e cni-net-dir -e cni-bin-dir",
		},
		OnlyIf: []probe.Conditional{{If: "the runtime's configuration is right now", Manifest: []string{"ssh {node} sudo systemctl restart {runtime}"}}},
		Radius: "this node only; containers go on running while the runtime is restarted",
	},
	RuledOut: []string{start.InitStall.ID, facts.CheckCalicoPod},
	Explains: []string{"cni-config-missing", "cni-plugin-missing", "cni-plugin-fails"},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}

// limitReached is containerd/cri#448, Azure/aks-engine#1270 and their like.
var limitReached = &diagnose.Rule{
	ID: "limit-reached", Layer: diagnose.LayerMachine,
	Title: "a limit of open files, processes or inotify instances is reached",
	Doc: `A process may have so many files open (LimitNOFILE of its unit, prlimit), a cgroup so many processes and threads (podPidsLimit of the kubelet for each pod, TasksMax of a unit, pids.max), the machine so many processes (kernel.pid_max, kernel.threads-max) and root so many inotify instances (fs.inotify.max_user_instances). At the limit everything fails that needs one more: "too many open files", "resource temporarily unavailable", "failed to create new OS thread", "netplugin failed with no error message". What runs goes on, so it looks like a plugin or a runtime that is broken.
Told from those by the numbers, or by these words in what the runtime says of new pods.`,
	Fix: probe.Fix{
		Says: "Raise the limit that is reached, and see what uses so many.",
		Manifest: []string{
			"ssh {node} 'for n in containerd kubelet calico-node; do for p in $(pgrep -x $n); do echo $n $p $(sudo ls /proc/$p/fd | wc -l) $(grep -e files -e processes /proc/$p/limits | tr -s \" \"); done; done'",
			"ssh {node} 'systemctl show -p LimitNOFILE -p TasksMax {kubelet} {runtime}; sudo grep -n -i podPidsLimit /var/lib/kubelet/config.yaml; sysctl kernel.pid_max kernel.threads-max fs.file-max fs.inotify.max_user_instances'",
		},
		OnlyIf: []probe.Conditional{
			{If: "it is the runtime's limit of open files", Manifest: []string{"ssh {node} sudo systemctl edit {runtime}  # [Service] LimitNOFILE=1048576, then restart it"}},
			{If: "it is podPidsLimit in the kubelet's configuration, and it was raised there", Manifest: []string{"ssh {node} sudo systemctl restart {kubelet}"}},
			{If: "it is that of inotify instances", Manifest: []string{"ssh {node} sudo sysctl -w fs.inotify.max_user_instances=8192"}},
		},
		Radius: "reading changes nothing; containers go on running while the runtime is restarted",
	},
	RuledOut: []string{host.NodeDisk.ID, cni.CNIConfig.ID},
	Explains: append([]string{"cni-plugin-fails", "felix-down", "felix-stuck", "bird-dead", "calico-ends", "runtime-ends",
		"containerd-without-cri"}, withoutSandbox...),
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}

// snapshotterMissing is a runtime whose images nobody unpacks.
var snapshotterMissing = &diagnose.Rule{
	ID: "snapshotter-missing", Layer: diagnose.LayerRuntime,
	Title: "the runtime lacks the snapshotter that its configuration names",
	Doc: `containerd unpacks images by a snapshotter, overlayfs where nobody chose another. Where the configuration names one that is not loaded (stargz or nydus whose daemon is away, zfs or devmapper without their setup, overlayfs in a kernel without the module overlay) no sandbox is made for any pod. Pods that run go on.
Told from a pause image that is missing by the words.`,
	Fix: probe.Fix{
		Says: "Load the snapshotter (its daemon, or the kernel module overlay), or configure one that is loaded. Then restart the runtime.",
		Manifest: []string{"ssh {node} 'sudo ctr plugins ls | grep -i snapshotter; grep -rn -i snapshotter /etc/containerd'",
			"ssh {node} 'grep -w overlay /proc/filesystems || sudo modprobe -n -v overlay'"},
		OnlyIf: []probe.Conditional{{If: "the configuration is right now", Manifest: []string{"ssh {node} sudo systemctl restart {runtime}"}}},
		Radius: "this node only; containers go on running while the runtime is restarted",
	},
	RuledOut: []string{host.NodeDisk.ID}, Explains: withoutSandbox,
	Match: func(f diagnose.Findings) []diagnose.Case {
		pods, name := evidence.Obstructed(f, facts.ObstacleSnapshotter)
		if len(pods) == 0 {
			return nil
		}
		return []diagnose.Case{{
			Says: fmt.Sprintf("no pod can start on {node}: the runtime's snapshotter %s is not loaded or does not answer: %s", name, pods[0].Facts.Str(facts.Message)),
			For:  evidence.Said(pods), Covers: diagnose.Covers(probe.CheckPlaced),
		}}
	},
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
