package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// serviceTakesPort is a Service that has the node's own address. kube-proxy acts before what listens on
// the node, so it lies in the layer of the kernel.
var serviceTakesPort = &Rule{
	ID: "service-takes-port", Layer: LayerKernel,
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
	Match: func(f Findings) []Case {
		var out []Case
		for _, r := range f.Bad(facts.CheckServiceClaims) {
			namespace, name, ok := strings.Cut(r.Facts.Str(facts.Service), "/")
			if !ok {
				continue
			}
			weight, covers := strong, []Cover(nil)
			answered := keep(notPlaced(f, facts.ReasonAttach), func(p Finding) bool { return p.Facts[facts.Answered] == true })
			if hasPort(r, facts.TakenPorts, kubeletPort) {
				covers = Covers(link.NeighbourReach.ID, kubelet.KubeletHealth.ID, probe.CheckAnswered)
				if len(answered) > 0 { // by something that is no kubelet
					weight = proof
				}
			}
			out = append(out, Case{
				About:  r.Facts.Str(facts.Service),
				Says:   fmt.Sprintf("Service %s takes ports of {node} away: %s", r.Facts.Str(facts.Service), r.Saw),
				Args:   map[string]Arg{"of": namespaceArg(namespace), "service": checked(name, isName(name), "SERVICE")},
				For:    append(clues(weight, []Finding{r}), Shows(answered)...),
				Covers: covers,
			})
		}
		return out
	},
}

// hasPort tells whether a port is in the list that a fact has.
func hasPort(r Finding, fact probe.Fact, port float64) bool {
	ports, _ := r.Facts[fact].([]any) // as it travels
	return slices.Contains(ports, any(port))
}
