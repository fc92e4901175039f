package cause

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// serviceTakesPort is a Service that has the node's own address. kube-proxy acts before what listens on
// the node, so it lies in the layer of the kernel.
var serviceTakesPort = &diagnose.Rule{
	ID: "service-takes-port", Layer: diagnose.LayerKernel,
	Title: "a Service claims an address and port that the node itself needs",
	Doc: `A Service with an external address (externalIPs, or what a load balancer gave it) that is an address of the node: kube-proxy then sends every connection to that address and the Service's port to its pods, on every node, before anything that listens there gets it. With port 10250 the API server talks to a pod instead of the kubelet (no logs, exec, attach: "first record does not look like a TLS handshake"), with 6443 to no API server, with 179 BGP ends.
Told from a firewall by the connection, which opens; from a kubelet that died by its lease.`,
	Fix: probe.Fix{
		Says: "Give the Service another address or another port.",
		Manifest: []string{
			"kubectl get service -n {of} {service} -o yaml  # spec.externalIPs, status.loadBalancer, spec.ports",
			"kubectl get nodes -o wide  # the addresses that no Service may have",
		},
		Radius: "reading changes nothing; who uses the Service at the node's address loses it when it is changed",
	},
	RuledOut: []string{facts.CheckNodeLease, facts.CheckNodeReady},
	Explains: []string{"kubelet-port-blocked", "kubelet-cut-off", "kubelet-frozen", "bgp-waits", "bgp-filtered",
		"bgp-rejected", "api-cut-off", "typha-unreachable", "tunnel-filtered"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range f.Bad(facts.CheckServiceClaims) {
			namespace, name, ok := strings.Cut(r.Facts.Str(facts.Service), "/")
			if !ok {
				continue
			}
			weight, covers := diagnose.Strong, []diagnose.Cover(nil)
			answered := diagnose.Keep(evidence.NotPlaced(f, facts.ReasonAttach),
				func(p diagnose.Finding) bool { return p.Facts[facts.Answered] == true })
			if evidence.HasPort(r, facts.TakenPorts, evidence.KubeletPort) {
				covers = diagnose.Covers(link.NeighbourReach.ID, kubelet.KubeletHealth.ID, probe.CheckAnswered)
				if len(answered) > 0 { // by something that is no kubelet
					weight = diagnose.Proof
				}
			}
			out = append(out, diagnose.Case{
				About: r.Facts.Str(facts.Service),
				Says:  fmt.Sprintf("Service %s takes ports of {node} away: %s", r.Facts.Str(facts.Service), r.Saw),
				Args: map[string]diagnose.Arg{"of": diagnose.NamespaceArg(namespace),
					"service": diagnose.CheckedArg(name, diagnose.IsName(name), "SERVICE")},
				For:    append(diagnose.Clues(weight, []diagnose.Finding{r}), diagnose.Shows(answered)...),
				Covers: covers,
			})
		}
		return out
	},
}
