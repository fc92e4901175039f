package diagnose

import (
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
)

// kubeProxyRenamed is a kube-proxy that takes itself for another node.
var kubeProxyRenamed = &Rule{
	ID: "kube-proxy-renamed", Layer: LayerServices, Title: "kube-proxy goes by another node's name",
	Doc: `kube-proxy finds out which endpoints are on its own node by the node's name: its hostnameOverride, or the machine's hostname. With a name that the Node does not have (a full name, that of the machine before it was renamed, one fixed name in the ConfigMap of all nodes) it runs, calls itself healthy, and no endpoint is local to it: Services with externalTrafficPolicy or internalTrafficPolicy Local drop everything on this node, load balancers find no node with endpoints, and all others work.
Told from a node without endpoints by the name that kube-proxy itself says it has.`,
	Fix: probe.Fix{
		Says: "Give kube-proxy the name of its Node: in a DaemonSet --hostname-override=$(NODE_NAME) with spec.nodeName, or no override where the hostname is that name.",
		Manifest: []string{
			"kubectl -n kube-system get configmap kube-proxy -o yaml | grep -n hostnameOverride",
			"kubectl -n kube-system get ds kube-proxy -o jsonpath='{.spec.template.spec.containers[0].command}'",
			"ssh {node} 'ps -o args= -C kube-proxy; hostname'",
		},
		Radius: "reading changes nothing; a changed ConfigMap acts at the next start of each kube-proxy, whose rules stay meanwhile",
	},
	RuledOut: []string{checks.NodePing.ID},
	Explains: []string{"service-path-broken", "peer-nodeports"},
	Match: func(f Findings) []Case {
		other := keep(f.Failed(checks.KubeProxyHealth.ID), about(checks.TargetProxyName))
		if len(other) == 0 {
			return nil
		}
		c := Case{Says: "Services that keep to their own node get nothing on {node}: " + other[0].Saw, For: clues(proof, other),
			Covers: []Cover{{Check: checks.KubeProxyHealth.ID, About: checks.TargetProxyName}}}
		for _, r := range f.Bad(checks.ServiceNodePort.ID) {
			c.Covers = append(c.Covers, Cover{Check: r.Check, About: r.Target})
		}
		return []Case{c}
	},
}
