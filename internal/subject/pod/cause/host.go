package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
)

// hostActionDrops is a Felix that keeps pods from their own node.
var hostActionDrops = &diagnose.Rule{
	ID: "host-action-drops", Layer: diagnose.LayerPaths,
	Title: "Felix is configured to block pods from their own node (DefaultEndpointToHostAction)",
	Doc: `What a pod sends to an address of the node that it is on goes through Felix' setting defaultEndpointToHostAction, after the policies. Its own default is Drop; Calico's manifests and the operator set it to Accept. With Drop or Reject pods do not reach the kubelet, a DNS cache, an API server or another program in the host's network of their own node, and reach those of all other nodes: metrics of one node are missing, or a webhook fails on one node alone.
Told from a policy of the pod's, which makes this no finding, and from a firewall of the host by the setting.`,
	Fix: probe.Fix{
		Says: "Set defaultEndpointToHostAction to Accept, unless somebody wants pods kept out.",
		Manifest: []string{
			"kubectl -n {namespace} set env ds/{daemonset} -c calico-node --list | grep -i ENDPOINTTOHOST  # this goes before FelixConfiguration",
			"kubectl get felixconfigurations.crd.projectcalico.org -o yaml | grep -i -B20 endpointToHost",
		},
		OnlyIf: []probe.Conditional{{If: "nobody wants it so, and it is not in the environment",
			Manifest: []string{`kubectl patch felixconfigurations.crd.projectcalico.org default --type merge -p '{"spec":{"defaultEndpointToHostAction":"Accept"}}'`}}},
		Radius: "every node; Felix takes it at once, and pods may then open connections to their own node",
	},
	RuledOut: []string{kubelet.KubeletHealth.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
		kept := diagnose.Keep(evidence.InRole(f.Bad(pod.PodTCP.ID), pod.RoleOwnNode), func(r diagnose.Finding) bool {
			return r.Facts.Str(pod.FactToHost) != ""
		})
		if len(kept) == 0 {
			return nil
		}
		c := diagnose.Case{
			Says: fmt.Sprintf("pods on {node} do not reach the node itself, as Felix' setting defaultEndpointToHostAction (FELIX_DEFAULTENDPOINTTOHOSTACTION) is %s: %s",
				kept[0].Facts.Str(pod.FactToHost), kept[0].Saw),
			For: diagnose.Proves(kept),
		}
		if answers := evidence.KubeletAnswers(f); len(answers) > 0 { // on the node itself, so it is there
			c.For = append(c.For, diagnose.Shows(answers[:1])...)
		} else {
			c.For[0].Weight = diagnose.Strong
		}
		return []diagnose.Case{c}
	},
}
