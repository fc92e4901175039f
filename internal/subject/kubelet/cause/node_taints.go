package cause

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// nodeUninitialized is a node that a controller has not set up.
var nodeUninitialized = &diagnose.Rule{
	ID: "node-uninitialized", Layer: diagnose.LayerKubelet,
	Title: "the cloud provider's or agent's initial taint was never removed",
	Doc: `Some taints are on a node from its birth, and a controller takes each away once it has done its part: the cloud-controller-manager node.cloudprovider.kubernetes.io/uninitialized (set by a kubelet with --cloud-provider=external), a CSI driver its agent-not-ready, Cluster API node.cluster.x-k8s.io/uninitialized, Karpenter karpenter.sh/unregistered. Where that controller does not run, may not write nodes, or does not find the machine (another name, another region, a missing providerID), the taint stays and no pod that does not tolerate it is placed here. The node itself is Ready and well. Where the controller needs pods' network, and calico-node does not tolerate the taint, each waits for the other.
Told from a taint set by hand by its name.`,
	Fix: probe.Fix{
		Says: "Start the controller that owns the taint, or correct what its log shows for this node: its rights, or a providerID that it does not find.",
		Manifest: []string{
			"kubectl get pods -A -o wide | grep -E 'cloud-controller|csi|karpenter|capi'",
			"kubectl get node {node} -o jsonpath='{.spec.providerID}{\"\\n\"}{.spec.taints}{\"\\n\"}'",
		},
		OnlyIf: []probe.Conditional{{If: "no such controller is to run in this cluster, and the kubelet was not to expect one (--cloud-provider)",
			Manifest: []string{"kubectl taint node {node} {taint}-"}}},
		Radius: "reading changes nothing; without the taint pods are placed on this node at once, though what the controller was to set up (addresses, zone, providerID) is missing",
	},
	Match: func(f diagnose.Findings) []diagnose.Case {
		born := diagnose.Keep(f.Bad(facts.CheckNodeTaints),
			func(r diagnose.Finding) bool { return len(diagnose.ListOf(r, facts.Unstarted)) > 0 })
		if len(born) == 0 {
			return nil
		}
		taints, waiting := diagnose.ListOf(born[0], facts.Unstarted), diagnose.ListOf(born[0], facts.WaitingFor)
		key, _, _ := strings.Cut(taints[0], "=")
		key, _, _ = strings.Cut(key, ":")
		c := diagnose.Case{
			Says:   fmt.Sprintf("{node} keeps taint %s, which its controller has not taken away", strings.Join(taints, ", ")),
			For:    diagnose.Suggests(born),
			Args:   map[string]diagnose.Arg{"taint": diagnose.CheckedArg(key, diagnose.IsWord(key), "TAINT")},
			Covers: diagnose.Covers(facts.CheckNodeTaints),
		}
		if absent := diagnose.ListOf(born[0], facts.WithoutAgent); len(absent) > 0 {
			c.Says = fmt.Sprintf("{node} keeps taint %s, and the agent that takes it away has no pod on it", strings.Join(absent, ", "))
			c.Fix = evidence.AgentTaintFix
		}
		if len(waiting) > 0 {
			c.Says += fmt.Sprintf(": it keeps pods off that wait for a node (%s)", strings.Join(waiting, ", "))
			c.For = diagnose.Proves(born)
		}
		return []diagnose.Case{c}
	},
}

// nodeCordoned is a node that maintenance has left cordoned.
var nodeCordoned = &diagnose.Rule{
	ID: "node-cordoned", Layer: diagnose.LayerKubelet, Title: "the node is cordoned, and pods wait for it",
	Doc: `A cordon (kubectl cordon, kubectl drain, an upgrade of the node pool) marks a node as unschedulable: what runs on it goes on, and the scheduler places no more pods there. It stays until the node is uncordoned, also when the drain that set it was interrupted.
Told from a full node and from other taints by spec.unschedulable, and by pods that wait for an unschedulable node, whose selectors take this one, that tolerate its other taints, and that ask for no more than it has. A cordon may be meant, which the person who set it knows.`,
	Fix: probe.Fix{
		Says: "Uncordon the node once the maintenance that it was cordoned for is over.",
		Manifest: []string{"kubectl describe node {node} | tail -20",
			"kubectl get pods -A -o wide --field-selector spec.nodeName=,status.phase=Pending"},
		OnlyIf: []probe.Conditional{{If: "the maintenance is over", Manifest: []string{"kubectl uncordon {node}"}}},
		Radius: "reading changes nothing; after it pods are placed on this node at once",
	},
	Match: func(f diagnose.Findings) []diagnose.Case {
		cordoned := diagnose.Keep(f.Of(facts.CheckNodeTaints),
			func(r diagnose.Finding) bool { return len(diagnose.ListOf(r, facts.Cordoned)) > 0 })
		if len(cordoned) == 0 {
			return nil
		}
		return []diagnose.Case{{
			Says: fmt.Sprintf("{node} is cordoned, so pods that could run there wait for a node: %s",
				strings.Join(diagnose.ListOf(cordoned[0], facts.Cordoned), ", ")),
			For: diagnose.Suggests(cordoned), Covers: diagnose.Covers(facts.CheckNodeTaints),
		}}
	},
}
