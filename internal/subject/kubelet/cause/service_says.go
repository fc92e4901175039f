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
func kubeletEnds(f diagnose.Findings) []diagnose.Case {
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
}

// kubeletStateDiffers is kubernetes-sigs/kubespray#8535, read from the files: for where
// no log can be had.
func kubeletStateDiffers(f diagnose.Findings) []diagnose.Case {
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
