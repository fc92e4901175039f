package diagnose

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// aboutService is what daemon-log says of a service.
func aboutService(names ...string) []Cover {
	var out []Cover
	for _, name := range names {
		out = append(out, Cover{Check: logs.DaemonLog.ID, About: name})
	}
	return out
}

// endWeight is how much a line weighs with which a service ended that was seen not to answer.
func endWeight(line Finding, down bool) int {
	switch {
	case !down:
		return hint
	case line.Facts.Str(logs.FactSignature) == "", line.Facts[logs.FactByTag] == true:
		return strong
	}
	return proof
}

// kubeletEnds is a kubelet that says itself why it ends.
var kubeletEnds = &Rule{
	ID: "kubelet-ends", Layer: LayerKubelet, Title: "the kubelet keeps exiting, and logs why",
	Doc: `A kubelet that cannot start writes one line that says why, exits with 1, and systemd starts it again ten seconds later, to the same line. Mostly: an argument or a setting that this version does not know (after an upgrade), a configuration file that does not parse, a kubeconfig that is gone or whose certificate has expired, a cgroup driver or version it does not accept, a full disk. All that the API shows is a node that is NotReady.
Told from a kubelet that was stopped, frozen or cut off by that line. Swap, an expired certificate, a full disk and a runtime that is down have causes of their own, where the node's state shows them.`,
	Fix: probe.Fix{
		Says: "Put right what the line names, then start the kubelet.",
		Manifest: []string{
			"ssh {node} sudo journalctl -u {kubelet} -n 50 --no-pager",
			"ssh {node} systemctl cat {kubelet}  # its arguments, and the files that they come from",
		},
		OnlyIf: []probe.Conditional{
			{If: "kubeadm made the node: arguments are in kubeadm-flags.env, settings in config.yaml",
				Manifest: []string{"ssh {node} sudo cat /var/lib/kubelet/kubeadm-flags.env /var/lib/kubelet/config.yaml"}},
			{If: "what the line names is put right", Manifest: []string{"ssh {node} sudo systemctl restart {kubelet}"}},
		},
		Radius: "this node only; a kubelet that starts does not restart running pods{together}",
	},
	Explains: []string{"kubelet-dead", "kubelet-restarts", "kubelet-silent", "runtime-stuck", "kubelet-cut-off"},
	Match: func(f Findings) []Case {
		lines := serviceEnds(f, logs.ServiceKubelet)
		if len(lines) == 0 || shownElsewhere(f, lines[0]) {
			return nil
		}
		here, lease := kubeletHere(f), f.Failed(facts.CheckNodeLease)
		var fix *probe.Fix
		if lines[0].Facts.Str(logs.FactSignature) == logs.SaysState {
			fix = &managerState
		}
		says, up := fmt.Sprintf("the kubelet on {node} does not stay up: %s", lines[0].Saw), runtimeAnswers(f)
		if lines[0].Facts.Str(logs.FactSignature) == logs.SaysNoRuntime && len(up) > 0 {
			says += fmt.Sprintf("; the runtime itself answers at %s, so the kubelet is set to ask at another socket (containerRuntimeEndpoint)", socketOf(up[0]))
			fix = &otherSocket
		}
		return []Case{{
			Fix: fix, Says: says,
			For: slices.Concat(clues(endWeight(lines[0], here.dead() || !here.answered() && len(lease) > 0), lines),
				Shows(here.refused), Shows(lease)),
			Against: Suggests(here.ok), // it has been started since
			Covers:  kubeletGone,
		}}
	},
}

// kubeletStateDiffers is kubernetes-sigs/kubespray#8535, read from the files: for where
// no log can be had.
var kubeletStateDiffers = &Rule{
	ID: "kubelet-state-differs", Layer: LayerKubelet,
	Title: "the kubelet's saved state conflicts with its configured policy",
	Doc: `The kubelet's CPU and memory managers save which CPUs and memory they gave to pods, with the name of their policy. A kubelet whose configuration names another policy (cpuManagerPolicy, memoryManagerPolicy) ends at every start, with "configured policy ... differs from state checkpoint policy", until the file is removed; it does not do that itself, for pods may run on those CPUs.
Told from a kubelet that ends for another reason by the file and the configuration.`,
	Fix:      managerState,
	Explains: []string{"kubelet-dead", "kubelet-restarts", "kubelet-silent"},
	Match: func(f Findings) []Case {
		differs := keep(f.Bad(kubelet.KubeletHealth.ID), func(r Finding) bool { return r.Target == kubelet.TargetState })
		if len(differs) == 0 {
			return nil
		}
		c := Case{For: Suggests(differs), Covers: []Cover{{Check: kubelet.KubeletHealth.ID, About: kubelet.TargetState}},
			Says: "the kubelet of {node} ends when it next starts: " + differs[0].Saw}
		if here := kubeletHere(f); here.dead() || differs[0].Status == probe.Fail {
			c.For = append(Proves(differs), Shows(here.refused)...)
			c.Says, c.Covers = "the kubelet of {node} does not start: "+differs[0].Saw, kubeletGone
		}
		return []Case{c}
	},
}

// runtimeAnswers are the answers of a runtime that is well on its socket.
func runtimeAnswers(f Findings) []Finding {
	return slices.Concat(good(f, runtime.CRIHealth.ID), good(f, runtime.ContainerdHealth.ID))
}

// otherSocket is kubernetes/kubernetes#110352: a kubelet that asks where no runtime is.
var otherSocket = probe.Fix{
	Says: "Name the socket of the runtime that runs, in the kubelet's settings; then start the kubelet.",
	Manifest: []string{
		"ssh {node} \"sudo grep -n containerRuntimeEndpoint /var/lib/kubelet/config.yaml /var/lib/kubelet/instance-config.yaml; sudo grep -on -e '--container-runtime-endpoint=[^ ]*' /var/lib/kubelet/kubeadm-flags.env\"",
		"ssh {node} 'ls -l /run/containerd/containerd.sock /run/crio/crio.sock /run/cri-dockerd.sock'",
		"kubectl get node {node} -o jsonpath='{.metadata.annotations.kubeadm\\.alpha\\.kubernetes\\.io/cri-socket}'  # what kubeadm keeps for its upgrades",
	},
	OnlyIf: []probe.Conditional{
		{If: "the settings name the runtime's socket now", Manifest: []string{"ssh {node} sudo systemctl restart {kubelet}"}},
	},
	Radius: "this node only; a kubelet that starts does not restart running pods{together}",
}

// managerState is the fix of a kubelet that does not take the state that its CPU or memory manager kept.
var managerState = probe.Fix{
	Says: "The settings of the CPU or memory manager, or the CPUs and memory of the machine, are not those that the kept state was written for. Drain the node, delete that state, start the kubelet: it writes it anew.",
	Manifest: []string{
		"ssh {node} sudo grep -i -e managerPolicy -e reserved /var/lib/kubelet/config.yaml",
		"ssh {node} sudo ls -l --full-time /var/lib/kubelet/cpu_manager_state /var/lib/kubelet/memory_manager_state",
	},
	OnlyIf: []probe.Conditional{
		{If: "the change was not meant, and the settings are put back: nothing need be drained",
			Manifest: []string{"ssh {node} sudo systemctl restart {kubelet}"}},
		{If: "the change was meant, and the node's pods can be spared, with what they have in emptyDir volumes",
			Manifest: []string{
				"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data",
				"ssh {node} sudo rm -f /var/lib/kubelet/cpu_manager_state /var/lib/kubelet/memory_manager_state",
				"ssh {node} sudo systemctl restart {kubelet}",
				"kubectl uncordon {node}",
			}},
	},
	Radius: "looking: nothing; the drain moves the pods of this node to others, and what their emptyDirs hold is lost. Only pods with exclusive CPUs or pinned memory depend on the state",
}

// shownElsewhere tells whether what the line says is seen on the node itself, whose cause says more.
func shownElsewhere(f Findings, line Finding) bool {
	seen := map[string][]Finding{
		logs.SaysSwapOn:       f.Failed(host.NodeSwap.ID),
		logs.SaysCertificate:  f.With(kubelet.KubeletHealth.ID, probe.FactReason, kubelet.CertificateExpired),
		logs.SaysNoKubeconfig: f.With(kubelet.KubeletHealth.ID, probe.FactReason, kubelet.CertificateExpired),
		logs.SaysDiskFull:     f.Failed(host.NodeDisk.ID),
		logs.SaysReadOnly:     f.Failed(host.NodeDisk.ID),
		logs.SaysNoRuntime: slices.Concat(f.Failed(runtime.ContainerdHealth.ID), f.Failed(runtime.CRIHealth.ID),
			f.Failed(runtime.DockerHealth.ID)),
	}
	return len(seen[line.Facts.Str(logs.FactSignature)]) > 0
}

// runtimeEnds is a container runtime that says itself why it ends.
var runtimeEnds = &Rule{
	ID: "runtime-ends", Layer: LayerRuntime, Title: "the container runtime keeps exiting, and logs why",
	Doc: `containerd, dockerd and CRI-O read their configuration at their start and end where it does not parse, is of a newer version, or names a plugin or a storage driver that does not work here; and where their disk is full or another process holds their socket. The last line says which. systemd starts them again for a while (dockerd three times) and then leaves them.
Told from one that was killed or stopped by that line; from a full disk, which has a cause of its own, by node-disk.`,
	Fix: probe.Fix{
		Says: "Put right what the line names, then start the runtime.",
		Manifest: []string{
			"ssh {node} sudo journalctl -u {runtime} -n 50 --no-pager",
			"ssh {node} sudo ls -l /etc/containerd/config.toml /etc/docker/daemon.json /etc/crio  # which of them was changed lately",
		},
		OnlyIf: []probe.Conditional{
			{If: "what the line names is put right", Manifest: []string{"ssh {node} sudo systemctl restart {runtime}"}},
		},
		Radius: "this node only; containers outlive a restart of containerd or CRI-O. restarting Docker's containerd stops them unless live-restore is set{together}",
	},
	Explains: append([]string{"containerd-dead", "docker-hangs", "runtime-hangs", "docker-lost-containerd",
		"kubelet-ends"}, stale...),
	Match: func(f Findings) []Case {
		gone := []string{"refused", "missing"}
		var out []Case
		for service, down := range map[string][]Finding{
			logs.ServiceContainerd: keep(f.Failed(runtime.ContainerdHealth.ID), because(gone...)),
			logs.ServiceDocker:     keep(f.Failed(runtime.DockerHealth.ID), because(gone...)),
			logs.ServiceCRIO:       keep(f.Failed(runtime.CRIHealth.ID), because(gone...)),
		} {
			lines := serviceEnds(f, service)
			if len(lines) == 0 || shownElsewhere(f, lines[0]) {
				continue
			}
			c := Case{
				About: service, Says: fmt.Sprintf("%s on {node} does not stay up: %s", service, lines[0].Saw),
				For: slices.Concat(clues(endWeight(lines[0], len(down) > 0), lines), Shows(down)), Covers: runtimeGone,
			}
			if service == logs.ServiceContainerd {
				c.Against = Suggests(good(f, runtime.ContainerdHealth.ID)) // it has been started since
			}
			out = append(out, c)
		}
		slices.SortFunc(out, func(a, b Case) int { return len(a.About) - len(b.About) })
		return out
	},
}
