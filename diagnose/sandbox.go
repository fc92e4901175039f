package diagnose

import (
	"fmt"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// sandboxLogs shows the runtime's own words.
const sandboxLogs = "ssh {node} sudo journalctl -u {runtime} --since -15min | grep -i -e error -e fail | tail -30"

// withoutSandbox is what is said of a runtime as long as nobody says why it makes no sandbox.
var withoutSandbox = []string{"sandbox-fails", "runtime-stuck"}

// obstructed are the pods for whose sandbox this is in the way, and where that is.
func obstructed(f Findings, obstacle string) (pods []Finding, at string) {
	pods = keep(waitingPods(f, facts.StartsSandbox),
		func(r Finding) bool { return r.Facts.Str(facts.Obstacle) == obstacle })
	if len(pods) > 0 {
		at = pods[0].Facts.Str(facts.ObstacleAt)
	}
	return pods, at
}

// pauseImageMissing is kubernetes/kubernetes#72295.
var pauseImageMissing = &Rule{
	ID: "pause-image-missing", Layer: LayerRuntime, Title: "the pause image, which every pod needs, is not there and cannot be pulled",
	Doc: `Each pod begins with a sandbox, whose container is made of the pause image. The runtime has its name in its own configuration and pulls it when it is not there. It goes away when the kubelet or a person cleans images up (it is not in use while no sandbox was made of it, or is not marked as pinned), and cannot be pulled where the node has no way to that registry, as without Internet. Pods that run go on; none starts, calico-node's and the probe's neither.
Told from an image of the pod's own by the event, which is about the sandbox.`,
	Fix: probe.Fix{
		Says: "Bring the image onto the node, or name one in the runtime's configuration that the node can have.",
		Manifest: []string{
			"ssh {node} sudo crictl images | grep -i pause",
			"ssh {node} 'grep -n -i -e sandbox -e pause /etc/containerd/config.toml /etc/crio/crio.conf'  # the name that the runtime has for it",
			"# from a machine that has it: ctr -n k8s.io images export pause.tar IMAGE; then on {node}: sudo ctr -n k8s.io images import pause.tar",
		},
		Radius: "this node only; the kubelet tries again within seconds",
	},
	RuledOut: []string{checks.NodeDisk.ID}, Explains: withoutSandbox,
	Match: func(f Findings) []Case {
		pods, image := obstructed(f, facts.ObstaclePauseImage)
		if len(pods) == 0 {
			return nil
		}
		return []Case{{
			Says: fmt.Sprintf("no pod can start on {node}: the image of sandboxes, %s, is not there and cannot be pulled: %s", image, pods[0].Facts.Str(facts.Message)),
			For:  said(pods), Covers: Covers(probe.CheckPlaced),
		}}
	},
}

// cgroupDriversDiffer is kubernetes-sigs/kubespray#8122.
var cgroupDriversDiffer = &Rule{
	ID: "cgroup-drivers-differ", Layer: LayerRuntime, Title: "the kubelet and the runtime have different cgroup drivers",
	Doc: `The kubelet names a pod's cgroup as its driver does: "/kubepods/besteffort/pod..." with cgroupfs, "kubepods-besteffort-pod....slice" with systemd. A runtime with the other driver (SystemdCgroup of containerd, cgroup_manager of CRI-O) takes no such name and starts nothing: after an upgrade, a configuration that was written anew, or a kubelet that takes the driver of the runtime only from its next start on. Pods that run go on.
Told from a runtime that hangs by its words.`,
	Fix: probe.Fix{
		Says: "Set both to one driver, systemd where systemd is the first process, and start the one anew that was changed.",
		Manifest: []string{
			"ssh {node} 'sudo grep -n -i cgroupDriver /var/lib/kubelet/config.yaml; ps -o args= -C kubelet | grep -o -e --cgroup-driver=[a-z]*'",
			"ssh {node} 'sudo grep -n -i -e SystemdCgroup -e cgroup_manager -r /etc/containerd /etc/crio'",
			"ssh {node} ps -p 1 -o comm=",
		},
		OnlyIf: []probe.Conditional{{If: "it is the runtime's that was changed, and it is right now",
			Manifest: []string{"ssh {node} sudo systemctl restart {runtime}"}}},
		Radius: "this node only; a kubelet whose driver is changed makes its pods' cgroups anew: drain the node first then",
	},
	RuledOut: []string{checks.NodeDisk.ID}, Explains: withoutSandbox,
	Match: func(f Findings) []Case {
		pods, _ := obstructed(f, facts.ObstacleCgroupDriver)
		if len(pods) == 0 {
			return nil
		}
		return []Case{{
			Says: "no pod can start on {node}: the cgroup drivers of kubelet and runtime differ: " + pods[0].Facts.Str(facts.Message),
			For:  said(pods), Covers: Covers(probe.CheckPlaced),
		}}
	},
}

// resolvConfMissing is kubernetes/kubernetes#103110.
var resolvConfMissing = &Rule{
	ID: "resolv-conf-missing", Layer: LayerRuntime, Title: "the file from which the kubelet takes DNS servers for pods is not there",
	Doc: `The kubelet's resolvConf names a file whose servers pods with the node's DNS get; it reads it for every sandbox. Where systemd-resolved is set up, kubeadm and others write /run/systemd/resolve/resolv.conf there; on a node where that service does not run, or no longer does, the file is missing and no sandbox is made, for pods of every kind. Pods that run go on.
Told from a runtime that hangs by the words, which are the kubelet's own and not the runtime's.`,
	Fix: probe.Fix{
		Says: "Start what makes the file, or name another in the kubelet's configuration; then start the kubelet anew.",
		Manifest: []string{
			"ssh {node} 'sudo grep -n -i resolvConf /var/lib/kubelet/config.yaml; ls -l {file} /etc/resolv.conf'",
			"ssh {node} systemctl is-active systemd-resolved",
		},
		OnlyIf: []probe.Conditional{
			{If: "systemd-resolved should run here", Manifest: []string{"ssh {node} sudo systemctl enable --now systemd-resolved"}},
			{If: "resolvConf names a file that is there now", Manifest: []string{"ssh {node} sudo systemctl restart {kubelet}"}},
		},
		Radius: "this node only; containers go on running while the kubelet is away",
	},
	Explains: withoutSandbox,
	Match: func(f Findings) []Case {
		pods, file := obstructed(f, facts.ObstacleResolvConf)
		if len(pods) == 0 {
			return nil
		}
		return []Case{{
			Says: fmt.Sprintf("no pod can start on {node}: %s, which the kubelet's resolvConf names, cannot be opened: %s", file, pods[0].Facts.Str(facts.Message)),
			Args: map[string]Arg{"file": fileArg(file)}, For: said(pods), Covers: Covers(probe.CheckPlaced),
		}}
	},
}

// sandboxFails is a runtime that makes no sandboxes.
var sandboxFails = &Rule{
	ID: "sandbox-fails", Layer: LayerRuntime, Symptom: true, Title: "the container runtime makes no sandboxes or containers for new pods",
	Doc: `Before any container of a pod the runtime makes its sandbox: the pause image, namespaces, cgroups, a shim. The kubelet has the runtime's words in an event of the pod (FailedCreatePodSandBox, CreateContainerError), of the probe's own pod too. Usual: no space or no processes left, names that an earlier attempt still holds, a security profile that is missing. Where it is the pause image, the cgroup driver or the kubelet's resolv.conf, that is a cause of its own.
Told from a CNI plugin that fails by the words: the runtime names the plugin then.`,
	Fix: probe.Fix{
		Says:     "The message says what the runtime lacks.",
		Manifest: []string{lookAtPods, sandboxLogs, "ssh {node} df -h /var/lib /run"},
		Radius:   onlyReads,
	},
	RuledOut: []string{checks.CRIHealth.ID, checks.NodeDisk.ID},
	Match: func(f Findings) []Case {
		return quotedPods(waitingPods(f, facts.StartsSandbox, facts.StartsContainer), "get no sandbox or container from the runtime")
	},
}

// saidWhy tells whether somebody says why the runtime makes no sandbox; that it does not answer is no reason.
func saidWhy(f Findings) bool {
	pods := keep(waitingPods(f, facts.StartsSandbox), func(r Finding) bool {
		return r.Facts.Str(facts.Message) != "" && r.Facts.Str(facts.Obstacle) != facts.ObstacleSilence
	})
	return len(pods) > 0
}
