package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// kubeletEnds is a kubelet that says itself why it ends.
var kubeletEnds = &diagnose.Rule{
	ID: "kubelet-ends", Layer: diagnose.LayerKubelet, Title: "the kubelet keeps exiting, and logs why",
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
	Match: func(f diagnose.Findings) []diagnose.Case {
		lines := evidence.ServiceEnds(f, logs.ServiceKubelet)
		if len(lines) == 0 || evidence.ShownElsewhere(f, lines[0]) {
			return nil
		}
		here, lease := evidence.KubeletHere(f), f.Failed(facts.CheckNodeLease)
		var fix *probe.Fix
		if lines[0].Facts.Str(logs.FactSignature) == logs.SaysState {
			fix = &managerState
		}
		says, up := fmt.Sprintf("the kubelet on {node} does not stay up: %s", lines[0].Saw), runtimeAnswers(f)
		if lines[0].Facts.Str(logs.FactSignature) == logs.SaysNoRuntime && len(up) > 0 {
			says += fmt.Sprintf("; the runtime itself answers at %s, so the kubelet is set to ask at another socket (containerRuntimeEndpoint)", evidence.SocketOf(up[0]))
			fix = &otherSocket
		}
		return []diagnose.Case{{
			Fix: fix, Says: says,
			For: slices.Concat(diagnose.Clues(evidence.EndWeight(lines[0], here.Dead() || !here.Answered() && len(lease) > 0),
				lines),
				diagnose.Shows(here.Refused), diagnose.Shows(lease)),
			Against: diagnose.Suggests(here.Ok), // it has been started since
			Covers:  evidence.KubeletGone,
		}}
	},
}

// kubeletStateDiffers is kubernetes-sigs/kubespray#8535, read from the files: for where
// no log can be had.
var kubeletStateDiffers = &diagnose.Rule{
	ID: "kubelet-state-differs", Layer: diagnose.LayerKubelet,
	Title: "the kubelet's saved state conflicts with its configured policy",
	Doc: `The kubelet's CPU and memory managers save which CPUs and memory they gave to pods, with the name of their policy. A kubelet whose configuration names another policy (cpuManagerPolicy, memoryManagerPolicy) ends at every start, with "configured policy ... differs from state checkpoint policy", until the file is removed; it does not do that itself, for pods may run on those CPUs.
Told from a kubelet that ends for another reason by the file and the configuration.`,
	Fix:      managerState,
	Explains: []string{"kubelet-dead", "kubelet-restarts", "kubelet-silent"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		differs := diagnose.Keep(f.Bad(kubelet.KubeletHealth.ID),
			func(r diagnose.Finding) bool { return r.Target == kubelet.TargetState })
		if len(differs) == 0 {
			return nil
		}
		c := diagnose.Case{For: diagnose.Suggests(differs),
			Covers: []diagnose.Cover{{Check: kubelet.KubeletHealth.ID, About: kubelet.TargetState}},
			Says:   "the kubelet of {node} ends when it next starts: " + differs[0].Saw}
		if here := evidence.KubeletHere(f); here.Dead() || differs[0].Status == probe.Fail {
			c.For = append(diagnose.Proves(differs), diagnose.Shows(here.Refused)...)
			c.Says, c.Covers = "the kubelet of {node} does not start: "+differs[0].Saw, evidence.KubeletGone
		}
		return []diagnose.Case{c}
	},
}

// runtimeAnswers are the answers of a runtime that is well on its socket.
func runtimeAnswers(f diagnose.Findings) []diagnose.Finding {
	return slices.Concat(diagnose.Good(f, runtime.CRIHealth.ID), diagnose.Good(f, runtime.ContainerdHealth.ID))
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
