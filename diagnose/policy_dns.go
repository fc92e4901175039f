package diagnose

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// policyWithoutDNS is a policy that lets pods out to others and not to the cluster's DNS.
var policyWithoutDNS = &Rule{
	ID: "policy-without-dns", Layer: LayerPaths, Title: "a policy lets pods out to others and not to the cluster's DNS, so names do not resolve in them",
	Doc: `From the first policy with egress on, a pod sends only what some policy allows, and asking for names has to be allowed too, by UDP: a rule with port 53 and no protocol is about TCP. Such pods wait for names and say that a database or a service cannot be reached; every other pod on the node, and the node itself, resolves the same names (projectcalico/calico#2199, kubernetes/website#38267).
Told from a DNS that is down by its answers elsewhere, which are good. The policies are gone through in Calico's order. Where none of those pods was entered to ask, it may be meant, for pods that need no names, and is low.`,
	Fix: probe.Fix{
		Says: "Let those pods out to the DNS: by a rule in that policy, or by a policy of its own that selects all pods of the namespace.",
		Manifest: []string{
			"kubectl get networkpolicies -A",
			"kubectl get networkpolicies.crd.projectcalico.org,globalnetworkpolicies.crd.projectcalico.org -A",
			"kubectl -n {namespace} exec {pod} -- cat /etc/resolv.conf  # whom it asks",
		},
		OnlyIf: []probe.Conditional{{If: "the policy is a NetworkPolicy of Kubernetes', and those pods need names",
			Manifest: []string{`kubectl -n {namespace} patch networkpolicies {policy} --type json -p '[{"op":"add","path":"/spec/egress/-","value":{"to":[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"kube-system"}},"podSelector":{"matchLabels":{"k8s-app":"kube-dns"}}}],"ports":[{"protocol":"UDP","port":53},{"protocol":"TCP","port":53}]}}]'`}}},
		Radius: "reading changes nothing; with the rule every pod that this policy selects may ask the cluster's DNS",
	},
	RuledOut: []string{checks.DNSCluster.ID, facts.CheckDNSService},
	Match: func(f Findings) []Case {
		var out []Case
		for _, r := range f.Bad(facts.CheckDNSPolicies) {
			policy, pods := r.Facts.Str(facts.Policy), r.Facts.Str(facts.NamedPods)
			if policy == "" || pods == "" {
				continue
			}
			_, name, _ := strings.Cut(policy, "/")
			first, _, _ := strings.Cut(pods, ",")
			namespace, pod, _ := strings.Cut(first, "/")
			lost := keep(f.Bad(checks.DNSCluster.ID), func(d Finding) bool {
				return d.From != "" && d.Facts.Str(probe.FactPolicy) != ""
			})
			c := Case{
				Says: fmt.Sprintf("%s lets pods of {node} out to others and not to the cluster's DNS: %s", policy, pods),
				Args: map[string]Arg{"namespace": checked(namespace, isName(namespace), "NAMESPACE"),
					"pod": checked(pod, isName(pod), "POD"), "policy": checked(name, isName(name), "POLICY")},
				For: clues(hint, []Finding{r}), Covers: Covers(facts.CheckDNSPolicies),
			}
			if len(lost) > 0 {
				c.For = append(c.For, clues(hint, lost)...)
				for _, d := range lost {
					c.Covers = append(c.Covers, Cover{Check: d.Check, About: d.Target})
				}
				c.Covers = append(c.Covers, Covers(checks.DNSExternal.ID)...)
			}
			out = append(out, c)
		}
		return out
	},
}
