package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// strayEndpoints is a Service that leads to addresses which nobody keeps.
func strayEndpoints(f diagnose.Findings) []diagnose.Case {
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
}
