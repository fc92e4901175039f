package cause

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// nodeFull is a kubelet that has no room for new pods.
var nodeFull = &diagnose.Rule{
	ID: "node-full", Layer: diagnose.LayerKubelet, Title: "the kubelet rejects new pods: the node is full",
	Doc: `A pod that is bound to the node is judged by the kubelet once more. Where the node has as many pods as it may have (maxPods, 110 where nobody chose another), or less CPU, memory or devices left than the pod requests, the kubelet refuses it: the pod ends at once as Failed with the reason OutOfpods, OutOfcpu, OutOfmemory or UnexpectedAdmissionError and is not tried again. Pods of a DaemonSet, pods with a nodeName and static pods come past the scheduler and meet it first; so does every probe in a pod of its own. Pods that run go on.
Told from a pod that asks for more than the whole node has by the figures in the kubelet's message.`,
	Fix: probe.Fix{
		Says: "Have fewer pods on the node, or let it have more.",
		Manifest: []string{
			"kubectl describe node {node} | grep -A12 -E 'Capacity|Allocat'",
			"kubectl get pods -A --field-selector spec.nodeName={node} -o wide",
		},
		OnlyIf: []probe.Conditional{{If: "it is the number of pods: maxPods in the kubelet's configuration, while the node's blocks of addresses are enough for them; when that is changed",
			Manifest: []string{"ssh {node} sudo systemctl restart {kubelet}"}}},
		Radius: "reading changes nothing; a kubelet that starts does not restart running pods{together}",
	},
	RuledOut: []string{facts.CheckCalicoPod, facts.CheckNodeLease}, Explains: []string{"probe-rejected"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		refused, probes := evidence.WaitingPods(f, facts.StartsRefused), evidence.NotPlaced(f, facts.ReasonRejected)
		full := f.With(facts.CheckPodsStart, facts.Full, true)
		switch {
		case len(refused) > 0:
			weight := diagnose.Strong
			if refused[0].Status == probe.Fail {
				weight = diagnose.Proof
			}
			n, _ := refused[0].Facts.Num(facts.Pods)
			verb := " are"
			if n == 1 {
				verb = " is"
			}
			return []diagnose.Case{{
				Says: fmt.Sprintf("the kubelet of {node} refuses new pods: %s%s refused lately: %s", evidence.CountOf(n, "pod"), verb,
					cmp.Or(refused[0].Facts.Str(facts.Message), refused[0].Facts.Str(facts.APIReason))),
				For: slices.Concat(diagnose.Clues(weight, refused), diagnose.Hints(probes), diagnose.Shows(full)),
			}}
		case len(full) > 0 && len(probes) > 0:
			return []diagnose.Case{{
				Says: "the kubelet of {node} refuses new pods: " + full[0].Saw,
				For:  slices.Concat(diagnose.Suggests(probes), diagnose.Hints(full)),
			}}
		}
		return nil
	},
}
