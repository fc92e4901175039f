package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// strayEndpoints is a Service that leads to addresses which nobody keeps.
var strayEndpoints = &diagnose.Rule{
	ID: "stray-endpoints", Layer: diagnose.LayerDatastore,
	Title: "an orphaned EndpointSlice sends a Service's traffic to addresses without pods",
	Doc: `kube-proxy takes every EndpointSlice that names a Service. One that Kubernetes' own controller did not make is not cleaned up: when its addresses are gone, their share of all connections to the Service fails, on every node, now and then, and the Service's pods are well. They come from tools for mirrors and migrations, from restored backups, and from hands (kubernetes/kubernetes#105987).
Told from a node on which services do not work by the Service itself, and by its other connections, which work.`,
	Fix: probe.Fix{
		Says: "See who made that EndpointSlice, and take it away where its addresses are gone.",
		Manifest: []string{
			"kubectl -n {namespace} get endpointslices -l kubernetes.io/service-name={service} -o wide",
			"kubectl -n {namespace} get endpointslice {slice} -o yaml --show-managed-fields  # who made it, and when",
		},
		OnlyIf: []probe.Conditional{{If: "nothing answers at its addresses any more",
			Manifest: []string{"kubectl -n {namespace} delete endpointslice {slice}"}}},
		Radius: "without that slice the Service leads to its pods alone, on every node, at once",
	},
	RuledOut: []string{service.KubeProxyHealth.ID},
	Explains: []string{"service-path-broken", "peer-nodeports", "dns-down"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range f.Of(facts.CheckServiceEndpoints) {
			name := r.Target
			namespace, svc, _ := strings.Cut(name, "/")
			_, slice, _ := strings.Cut(r.Facts.Str(facts.Slice), "/")
			of := func(b diagnose.Finding) bool { return strings.HasPrefix(b.Target, name+" ") }
			bad := diagnose.Keep(slices.Concat(f.Bad(service.ServiceClusterIP.ID), f.Bad(service.ServiceNodePort.ID)), of)
			covers := []diagnose.Cover{{Check: service.ServiceClusterIP.ID, About: name},
				{Check: service.ServiceNodePort.ID, About: name}}
			if r.Facts[facts.OfDNS] == true {
				bad = append(bad, diagnose.Keep(f.Bad(dns.DNSCluster.ID), diagnose.About("service"))...)
				covers = append(covers, diagnose.Cover{Check: dns.DNSCluster.ID, About: "service"})
			}
			if slice == "" || len(bad) == 0 {
				continue
			}
			out = append(out, diagnose.Case{About: name,
				Says: fmt.Sprintf("Service %s leads also to %s, which no pod has: EndpointSlice %s, which Kubernetes does not keep, "+
					"says that they are ready", name, r.Facts.Str(facts.Addresses), slice),
				Args: map[string]diagnose.Arg{"namespace": diagnose.CheckedArg(namespace, diagnose.IsName(namespace), "NAMESPACE"),
					"service": diagnose.CheckedArg(svc, diagnose.IsName(svc), "SERVICE"),
					"slice":   diagnose.CheckedArg(slice, diagnose.IsName(slice), "SLICE")},
				For: append(diagnose.Suggests([]diagnose.Finding{r}), diagnose.Shows(bad)...), Covers: covers})
		}
		return out
	},
}
