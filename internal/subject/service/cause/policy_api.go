package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// policyWithoutAPI is a policy that keeps the cluster's own pods from the API server.
var policyWithoutAPI = &diagnose.Rule{
	ID: "policy-without-api", Layer: diagnose.LayerDatastore,
	Title: "a network policy blocks the cluster's own pods from the API server",
	Doc: `A policy with egress that selects all pods of kube-system, or of every namespace, also selects CoreDNS and calico-kube-controllers. They connect to the API server, whose endpoint is a node's address and port (often 6443): a rule for the Service's address or port 443 does not let them through, because policies see packets after kube-proxy has translated them. CoreDNS keeps its connection for a while and serves what it has; after its next start it is never ready, and no name of the cluster resolves.
Told from a CoreDNS or a network that is down by the policies, which are evaluated in Calico's order for exactly this connection.`,
	Fix: probe.Fix{
		Says: "Let those pods out to the API server's endpoints: by a rule in that policy, or by a policy of its own that selects them.",
		Manifest: []string{
			"kubectl get endpointslices -n default -l kubernetes.io/service-name=kubernetes  # addresses and port to allow",
			"kubectl get networkpolicies.networking.k8s.io -n {namespace} -o yaml",
			"kubectl get networkpolicies.crd.projectcalico.org,globalnetworkpolicies.crd.projectcalico.org -A",
			"kubectl -n {namespace} logs {pod} --tail=20",
		},
		Radius: "reading changes nothing; a changed policy holds for every pod that it selects, at once",
	},
	RuledOut: []string{datastore.DatastoreLatency.ID, service.KubeProxyHealth.ID},
	Explains: []string{"policy-forbids", "dns-down", "dns-unserved", "dns-no-upstream", "coredns-cut-off", "coredns-ends",
		"controllers-end", "service-path-broken"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range f.Failed(facts.CheckAPIPolicies) {
			policy, pods := r.Facts.Str(facts.Policy), diagnose.ListOf(r, facts.NamedPods)
			if policy == "" || len(pods) == 0 {
				continue
			}
			namespace, pod, _ := strings.Cut(pods[0], "/")
			c := diagnose.Case{About: policy,
				Says: fmt.Sprintf("%s denies the cluster's own pods the API server: %s", policy,
					strings.Join(pods[:min(len(pods), 3)], ", ")),
				Args: map[string]diagnose.Arg{"namespace": diagnose.CheckedArg(namespace, diagnose.IsName(namespace), "NAMESPACE"),
					"pod": diagnose.CheckedArg(pod, diagnose.IsName(pod), "POD")},
				For: diagnose.Suggests([]diagnose.Finding{r}),
			}
			var down []diagnose.Finding
			if slices.ContainsFunc(pods, func(name string) bool { return strings.Contains(name, "dns") }) {
				down = f.Bad(facts.CheckDNSService)
				if len(down) > 0 {
					c.Covers = append(diagnose.Covers(facts.CheckDNSService), evidence.NamesFail...)
				}
			}
			down = append(down, diagnose.Keep(f.Bad(facts.CheckControllers), func(r diagnose.Finding) bool {
				return slices.Contains(pods, r.Target)
			})...)
			c.For = append(c.For, diagnose.Hints(down)...)
			out = append(out, c)
		}
		return out
	},
}
