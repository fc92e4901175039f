package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// sandboxLogs shows the runtime's own words.
const sandboxLogs = "ssh {node} sudo journalctl -u {runtime} --since -15min | grep -i -e error -e fail | tail -30"

// withoutSandbox is what is said of a runtime as long as nobody says why it makes no sandbox.
var withoutSandbox = []string{"sandbox-fails", "runtime-stuck"}

// pauseImageMissing is kubernetes/kubernetes#72295.
var pauseImageMissing = &diagnose.Rule{
	ID: "pause-image-missing", Layer: diagnose.LayerRuntime, Title: "the pause image is missing and cannot be pulled",
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
	RuledOut: []string{host.NodeDisk.ID}, Explains: withoutSandbox,
	Match: func(f diagnose.Findings) []diagnose.Case {
		pods, image := evidence.Obstructed(f, facts.ObstaclePauseImage)
		if len(pods) == 0 {
			return nil
		}
		return []diagnose.Case{{
			Says: fmt.Sprintf("no pod can start on {node}: the image of sandboxes, %s, is not there and cannot be pulled: %s%s", image, refusedBy(pods[0], image), pods[0].Facts.Str(facts.Message)),
			For:  evidence.Said(pods), Covers: evidence.KeptDown(pods),
		}}
	},
}

// refusedBy is the beginning of a sentence about an image that a registry does not give.
func refusedBy(r diagnose.Finding, image string) string {
	refusal := evidence.RefusedWords[facts.PullFailed(r.Facts.Str(facts.Message))]
	if refusal == "" {
		return ""
	}
	return fmt.Sprintf("registry %s: %s: ", facts.RegistryOf(image), refusal)
}

// cgroupDriversDiffer is kubernetes-sigs/kubespray#8122.
var cgroupDriversDiffer = &diagnose.Rule{
	ID: "cgroup-drivers-differ", Layer: diagnose.LayerRuntime,
	Title: "the kubelet and the runtime use different cgroup drivers",
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
	RuledOut: []string{host.NodeDisk.ID}, Explains: withoutSandbox,
	Match: func(f diagnose.Findings) []diagnose.Case {
		pods, _ := evidence.Obstructed(f, facts.ObstacleCgroupDriver)
		if len(pods) == 0 {
			return nil
		}
		return []diagnose.Case{{
			Says: "no pod can start on {node}: the cgroup drivers of kubelet and runtime differ: " + pods[0].Facts.Str(facts.Message),
			For:  evidence.Said(pods), Covers: evidence.KeptDown(pods),
		}}
	},
}

// resolvConfMissing is kubernetes/kubernetes#103110.
var resolvConfMissing = &diagnose.Rule{
	ID: "resolv-conf-missing", Layer: diagnose.LayerRuntime, Title: "the kubelet's resolvConf file is missing",
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
	Match: func(f diagnose.Findings) []diagnose.Case {
		pods, file := evidence.Obstructed(f, facts.ObstacleResolvConf)
		if len(pods) == 0 {
			return nil
		}
		return []diagnose.Case{{
			Says: fmt.Sprintf("no pod can start on {node}: %s, which the kubelet's resolvConf names, cannot be opened: %s", file, pods[0].Facts.Str(facts.Message)),
			Args: map[string]diagnose.Arg{"file": diagnose.FileArg(file)}, For: evidence.Said(pods),
			Covers: evidence.KeptDown(pods),
		}}
	},
}

// imageStoreBroken is containerd/containerd#3401.
var imageStoreBroken = &diagnose.Rule{
	ID: "image-store-broken", Layer: diagnose.LayerRuntime, Title: "the runtime's image store is damaged",
	Doc: `containerd keeps images as blobs (its content store) and unpacked layers (snapshots), and lists of both. After a power loss, a full disk, files removed by hand below /var/lib/containerd, or a change of snapshotter for images whose blobs were let go (discard_unpacked_layers), the lists name what is not there: "failed to get reader from content store: content digest ... not found", "blob not found", "missing parent ... bucket: not found", "failed to prepare extraction snapshot". The image counts as pulled, so no pull mends it, and every pod with it fails; with the pause image, every pod. CRI-O says "layer not known". An "input/output error" or "structure needs cleaning" there is the disk or the file system below.
Told from a registry that lacks an image by these words, which are the store's, and from a full disk by node-disk. Other nodes start the same image.`,
	Fix: probe.Fix{
		Says: "Remove that image on this node and have it pulled again. Where many images are broken, or it comes back, drain the node and begin with an empty store.",
		Manifest: []string{evidence.LookAtPods, sandboxLogs, "ssh {node} df -h /var/lib/containerd /var/lib/containers",
			"ssh {node} sudo crictl images  # IMAGE: that of the message, or of the pods above; the pause image where no sandbox is made"},
		OnlyIf: []probe.Conditional{
			{If: "one or a few images are concerned, and the node can pull them again (IMAGE)", Manifest: []string{
				"ssh {node} 'sudo crictl rmi IMAGE && sudo crictl pull IMAGE'"}},
			{If: "many are, and the node's pods can be spared, with what they have in emptyDir volumes", Manifest: []string{
				"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data",
				"ssh {node} 'sudo systemctl stop {kubelet} && sudo crictl rmp -fa; sudo systemctl stop {runtime}'",
				"ssh {node} sudo mv /var/lib/containerd /var/lib/containerd.broken  # delete it later; with CRI-O: sudo crio wipe -f",
				"ssh {node} 'sudo systemctl start {runtime} && sudo systemctl start {kubelet}'",
				"kubectl uncordon {node}",
			}},
		},
		Radius: "reading changes nothing, and an image that is removed stays in use where it runs; the empty store stops every pod of this node, and each image is pulled again, calico-node's and the pause image too: make sure that the registry answers first",
	},
	RuledOut: []string{host.NodeDisk.ID, runtime.CRIHealth.ID},
	Explains: append([]string{"pause-image-missing", "calico-image", "container-not-started", "probe-image"},
		withoutSandbox...),
	Match: func(f diagnose.Findings) []diagnose.Case {
		pods, _ := evidence.Obstructed(f, facts.ObstacleStore, facts.ObstacleStoreDisk)
		if len(pods) == 0 {
			return nil
		}
		c := diagnose.Case{
			Says:   "the image store of the runtime on {node} is damaged: " + pods[0].Facts.Str(facts.Message),
			For:    append(evidence.Said(pods), diagnose.Hints(runtimeLogs(f, logs.SaysStore))...),
			Covers: evidence.KeptDown(pods),
		}
		if pods[0].Facts.Str(facts.Obstacle) == facts.ObstacleStoreDisk {
			c.Says = "the runtime on {node} cannot read its image store, for an error of the disk or file system below: " + pods[0].Facts.Str(facts.Message)
			c.Fix = &storeDiskFix
		}
		return []diagnose.Case{c}
	},
}

// runtimeLogs is what the runtime's own log has of this.
func runtimeLogs(f diagnose.Findings, signature string) []diagnose.Finding {
	return diagnose.Keep(f.With(logs.DaemonLog.ID, logs.FactSignature, signature), diagnose.About(logs.ServiceContainerd))
}

// storeDiskFix is that of a store whose disk fails.
var storeDiskFix = probe.Fix{
	Says: "Look at what the kernel says of the disk. Move the node's pods away before anything is written or checked there.",
	Manifest: []string{"ssh {node} \"sudo dmesg -T | grep -i -e 'I/O error' -e 'ext4-fs error' -e 'xfs.*corrupt' | tail\"",
		"ssh {node} findmnt -T /var/lib/containerd"},
	OnlyIf: []probe.Conditional{{If: "the disk or the file system is broken", Manifest: []string{
		"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"}}},
	Radius: "reading changes nothing; the drain moves the pods of this node to others, and what their emptyDirs hold is lost",
}

// ociRuntimeBroken is a runc, or a shim, that does not do its work.
var ociRuntimeBroken = &diagnose.Rule{
	ID: "oci-runtime-broken", Layer: diagnose.LayerRuntime, Title: "runc or its shim fails",
	Doc: `containerd and CRI-O start nothing themselves: a shim (containerd-shim-runc-v2) or conmon runs runc or crun, once for each sandbox and container. Where that program is missing (an update that failed, a cleanup of /usr/bin), is of another architecture or cut short ("exec format error"), lacks a library, or is too old or too new for the kernel (seccomp, cgroups), the runtime itself answers well and starts nothing: "failed to create shim task: OCI runtime create failed", "unable to retrieve OCI runtime error", "runc did not terminate successfully", "unable to apply cgroup configuration". What runs goes on.
Told from a container whose own program is missing by the name in the message, which is runc's or the shim's. Cgroup drivers that differ, a kernel that makes no more cgroups and a systemd that does not answer have causes of their own.`,
	Fix: probe.Fix{
		Says: "Have the runtime's programs run by hand, then install their package again.",
		Manifest: []string{sandboxLogs, "ssh {node} 'ls -l $(which runc crun containerd-shim-runc-v2); runc --version; containerd-shim-runc-v2 -v'",
			"ssh {node} 'uname -rm; stat -fc %T /sys/fs/cgroup; free -m'"},
		OnlyIf: []probe.Conditional{
			{If: "a program is missing or does not run: with the package that this node has it from (PACKAGE)", Manifest: []string{
				"ssh {node} 'sudo apt-get install --reinstall PACKAGE || sudo dnf reinstall PACKAGE'"}},
		},
		Radius: "this node only; runc is started anew for each container, so running ones are not touched. A package of containerd or Docker may restart its service",
	},
	RuledOut: []string{host.NodeDisk.ID, host.NodeMemory.ID, runtime.CRIHealth.ID},
	Explains: append([]string{"container-not-started"}, withoutSandbox...),
	Match: func(f diagnose.Findings) []diagnose.Case {
		pods, program := evidence.Obstructed(f, facts.ObstacleOCI)
		if len(pods) == 0 {
			return nil
		}
		says := "no container can be started on {node}: the program that the runtime starts for each fails itself: "
		if program != "" {
			says = fmt.Sprintf("no container can be started on {node}: %s, which the runtime starts for each, does not run: ", program)
		}
		return []diagnose.Case{{
			Says: says + pods[0].Facts.Str(facts.Message), Covers: evidence.KeptDown(pods),
			For: append(evidence.Said(pods), diagnose.Hints(runtimeLogs(f, logs.SaysOCI))...),
		}}
	},
}

// sandboxFails is a runtime that makes no sandboxes.
var sandboxFails = &diagnose.Rule{
	ID: "sandbox-fails", Layer: diagnose.LayerRuntime, Symptom: true,
	Title: "the container runtime cannot create sandboxes or containers for new pods",
	Doc: `Before any container of a pod the runtime makes its sandbox: the pause image, namespaces, cgroups, a shim. The kubelet has the runtime's words in an event of the pod (FailedCreatePodSandBox, CreateContainerError), of the probe's own pod too. Usual: no space or no processes left, names that an earlier attempt still holds, a security profile that is missing. Where it is the pause image, the cgroup driver or the kubelet's resolv.conf, that is a cause of its own.
Told from a CNI plugin that fails by the words: the runtime names the plugin then.`,
	Fix: probe.Fix{
		Says:     "Provide what the quoted message says the runtime lacks, such as space, processes, a program or a security profile. The kubelet retries within a minute.",
		Manifest: []string{evidence.LookAtPods, sandboxLogs, "ssh {node} df -h /var/lib /run"},
		Radius:   evidence.OnlyReads,
	},
	RuledOut: []string{runtime.CRIHealth.ID, host.NodeDisk.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
		return evidence.QuotedPods(evidence.WaitingPods(f, facts.StartsSandbox, facts.StartsContainer), "get no sandbox or container from the runtime")
	},
}

// volumeNotMounted is a kubelet that cannot make or mount what a pod asks for.
var volumeNotMounted = &diagnose.Rule{
	ID: "volume-not-mounted", Layer: diagnose.LayerRuntime, Symptom: true, Title: "the kubelet cannot mount a volume of a pod",
	Doc: `Before a pod's sandbox is made the kubelet mounts its volumes, also the projected one with its service account token, and retries for as long as one fails (event FailedMount). The words name the volume and the error: a ConfigMap or Secret that is not there, a storage driver that does not answer, a file system error. "no space left on device" for kube-api-access-... is mostly no full disk: that volume is a tmpfs as large as the pod's memory limit, so the limit is too small, for example 128m (milli-bytes) where 128Mi is meant, which a LimitRange may have set.
It is quoted as it is where no other cause explains it.`,
	Fix: probe.Fix{
		Says: "Provide what the quoted message says is missing. Where a small tmpfs is full, correct the pod's memory limit, or the LimitRange that sets it.",
		Manifest: []string{evidence.LookAtPods, "kubectl get limitranges -A -o yaml | grep -B3 -A3 memory:",
			"ssh {node} 'df -h /var/lib/kubelet; df -i /var/lib/kubelet'"},
		Radius: evidence.OnlyReads,
	},
	RuledOut: []string{host.NodeDisk.ID, runtime.CRIHealth.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
		return evidence.QuotedPods(evidence.WaitingPods(f, facts.StartsVolume), "wait for a volume")
	},
}

// saidWhy tells whether somebody says why the runtime makes no sandbox; that it does not answer is no reason.
func saidWhy(f diagnose.Findings) bool {
	pods := diagnose.Keep(evidence.WaitingPods(f, facts.StartsSandbox, facts.StartsContainer),
		func(r diagnose.Finding) bool {
			return r.Facts.Str(facts.Message) != "" && r.Facts.Str(facts.Obstacle) != facts.ObstacleSilence
		})
	return len(pods) > 0
}
