package api

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// serviceEndpoints lists endpoints of Services that belong to no pod and that Kubernetes does not maintain.
func serviceEndpoints(s *cluster.Snapshot, report func(probe.Result)) {
	if s.Stray.Err != nil {
		report(apicheck.Unread(s.Stray.Err))
		return
	}
	for _, e := range s.Stray.Value {
		more := ""
		if e.Left > 0 {
			more = fmt.Sprintf(" and perhaps %d more", e.Left)
		}
		dns := s.DNS.Value.Service != nil && e.Service == s.DNS.Value.Service.Namespace+"/"+s.DNS.Value.Service.Name
		report(probe.Found(probe.Info, "EndpointSlice %s, which Kubernetes does not maintain, adds %s%s, which no pod has",
			e.Slice, cluster.Few(e.Addresses), more).On(e.Service).With(facts.Slice, e.Slice).
			With(facts.Addresses, cluster.Few(e.Addresses)).With(facts.OfDNS, dns))
	}
	if len(s.Stray.Value) == 0 {
		report(probe.Found(probe.OK, "no foreign EndpointSlice adds an endpoint without a pod to a Service with a selector"))
	}
}
