package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// proxySet is what kube-proxy says of its settings, where it has the fact.
func proxySet(f diagnose.Findings, key probe.Fact) []diagnose.Finding {
	return diagnose.Keep(f.Of(service.KubeProxyHealth.ID), func(r diagnose.Finding) bool {
		return r.Target == service.TargetProxySettings && r.Facts.Str(key) != ""
	})
}

// servicesThat are the API's lists of Services with a fact.
func servicesThat(f diagnose.Findings, about string) []diagnose.Finding {
	return diagnose.Keep(f.Of(facts.CheckServicePolicies), func(r diagnose.Finding) bool {
		return r.Target == about && r.Facts.Str(facts.Services) != ""
	})
}

// kubeProxyOtherNode is a kube-proxy that takes its node for another.
var kubeProxyOtherNode = &diagnose.Rule{
	ID: "kube-proxy-other-node", Layer: diagnose.LayerServices,
	Title: "kube-proxy uses the wrong node name, so it has no local endpoints",
	Doc: `kube-proxy calls an endpoint local where its node's name is the one that kube-proxy has for its own: hostnameOverride, or the machine's hostname. Where that is another (a hostname with a domain, a configuration that was copied from another node, a cloud's name of the Node), it finds no endpoint local: what comes to a Service whose externalTrafficPolicy or internalTrafficPolicy is Local is dropped on this node, though its pod runs here, and the health check of its load balancer says that none does. All other Services work, and kube-proxy calls itself healthy.
Told from a Service without a pod here by what kube-proxy says of its settings, and by its log: it looked for a Node that is not there.`,
	Fix:      nodesName,
	RuledOut: []string{service.ServiceClusterIP.ID, pod.PodTCP.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
		set, lines := proxySet(f, service.FactProxyNode), evidence.KubeSays(f, "kube-proxy", logs.SaysNodeNotFound)
		if len(set)+len(lines) == 0 {
			return nil
		}
		local := servicesThat(f, facts.ServicesLocal)
		c := diagnose.Case{For: slices.Concat(diagnose.Suggests(slices.Concat(set, lines)), diagnose.Hints(local)),
			Covers: diagnose.Covers(logs.KubeLog.ID, service.KubeProxyHealth.ID)}
		if len(set) > 0 {
			c.Says = fmt.Sprintf("kube-proxy on {node} takes it for node %s (hostnameOverride), so Services with policy Local are dropped here",
				set[0].Facts.Str(service.FactProxyNode))
		} else {
			c.Says = "kube-proxy on {node} looks for a Node that is not there, so Services with policy Local are dropped here: " +
				lines[0].Facts.Str(logs.FactLine)
		}
		if len(local) > 0 {
			c.Says += "; such are " + local[0].Facts.Str(facts.Services)
		}
		return []diagnose.Case{c}
	},
}

// masqueradedPods are policies by source behind a kube-proxy that hides the source.
var masqueradedPods = &diagnose.Rule{
	ID: "masquerade-hides-pods", Layer: diagnose.LayerPaths,
	Title: "kube-proxy masquerades pod traffic to Services, so policies by pod label deny it",
	Doc: `With masqueradeAll, or with a clusterCIDR that does not have the pods' addresses, kube-proxy gives packets from this node's pods to a Service's address the node's own address. A policy that lets pods in by their labels does not know them then and drops what it was written to allow; the same pods are let in where they go to the pod's address, and a policy's logs show the node. On the node where the server runs itself it works, as Calico lets a node reach its own pods.
Told from a policy that forbids by the setting, which kube-proxy says itself.`,
	Fix: probe.Fix{
		Says: "Take masqueradeAll out of kube-proxy's configuration, or make clusterCIDR that of the pods, or empty.",
		Manifest: []string{"kubectl -n kube-system get configmap kube-proxy -o yaml | grep -n -e masqueradeAll -e clusterCIDR",
			"ssh {node} 'ps -o args= -C kube-proxy'  # where it is no pod: --masquerade-all, --cluster-cidr",
			"kubectl get ippools.crd.projectcalico.org -o custom-columns=NAME:.metadata.name,CIDR:.spec.cidr"},
		OnlyIf: []probe.Conditional{{If: "the configuration is right now, and it is a pod",
			Manifest: []string{"kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName={node}"}}},
		Radius: kubeProxyRadius,
	},
	RuledOut: []string{service.ServiceClusterIP.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
		set, filtered := proxySet(f, service.FactMasquerades), servicesThat(f, facts.ServicesBySource)
		if len(set) == 0 || len(filtered) == 0 {
			return nil
		}
		return []diagnose.Case{{
			Says: fmt.Sprintf("policies by source do not know pods of {node} that come through a Service, for kube-proxy masquerades them (%s): %s, by %s",
				set[0].Facts.Str(service.FactMasquerades), filtered[0].Facts.Str(facts.Services),
				filtered[0].Facts.Str(facts.Policy)),
			For: diagnose.Hints(set, filtered),
		}}
	},
}

// foreignMasquerade is a rule of others that hides pods' addresses.
var foreignMasquerade = &diagnose.Rule{
	ID: "foreign-masquerade", Layer: diagnose.LayerPaths,
	Title: "a foreign rule masquerades pod-to-pod traffic, so policies by pod label deny it",
	Doc: `A rule in POSTROUTING that is neither Calico's nor kube-proxy's (of flannel before, of ip-masq-agent, a script, a VPN) masquerades all that comes from the pods' range, also what goes to pods of other nodes. Those see this node's address. Without policies nobody notices; a policy that lets pods in by their labels does not know them and drops what it was written to allow. Pods of the same node are let in.
Told from a policy that forbids by the rule, which is quoted; from kube-proxy's masquerading by the direct way, from pod to pod.`,
	Fix: probe.Fix{
		Says: "Take the rule away in what made it, or let it leave out what goes to pods (\"! -d\" and the pods' range). Calico masquerades itself what leaves the cluster (natOutgoing).",
		Manifest: []string{"ssh {node} \"sudo iptables-save -t nat; sudo nft list ruleset\" | grep -n -i masquerade",
			"kubectl get ippools.crd.projectcalico.org -o custom-columns=NAME:.metadata.name,CIDR:.spec.cidr,NAT:.spec.natOutgoing"},
		Radius: evidence.OnlyReads,
	},
	RuledOut: []string{link.NodePing.ID, route.RouteBlocks.ID},
	Explains: []string{"policy-forbids"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		rule := diagnose.Keep(f.Of(firewall.NodeFirewall.ID),
			func(r diagnose.Finding) bool { return r.Facts.Str(firewall.FactNATRule) != "" })
		held := diagnose.Keep(slices.Concat(f.Bad(pod.PodPing.ID), f.Bad(pod.PodTCP.ID)), func(r diagnose.Finding) bool {
			return r.Facts.Str(probe.FactPolicy) != "" && r.Facts.Str(probe.FactDenied) == ""
		})
		filtered := servicesThat(f, facts.ServicesBySource)
		if len(rule) == 0 || rule[0].Status != probe.Warn && len(held)+len(filtered) == 0 {
			return nil
		}
		policy := ""
		if by := rule[0].Facts.Str(firewall.FactByLabels); by != "" {
			policy = ", such as " + by
		}
		return []diagnose.Case{{
			Says: fmt.Sprintf("pods of {node} come to other nodes' pods with the node's address, so policies that admit pods by their labels%s deny them: %s",
				policy, rule[0].Facts.Str(firewall.FactNATRule)),
			For: slices.Concat(diagnose.Suggests(rule[:1]), diagnose.Shows(filtered), diagnose.Hints(held[:min(1, len(held))])),
			Covers: append(diagnose.Covers(pod.PodPing.ID, pod.PodTCP.ID),
				diagnose.Cover{Check: firewall.NodeFirewall.ID, About: rule[0].Target}),
		}}
	},
}
