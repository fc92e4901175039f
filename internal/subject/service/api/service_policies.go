package api

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// usesLocal reports whether a Service uses only endpoints of the client's own node, in part or always.
func usesLocal(svc *corev1.Service) bool {
	inside := svc.Spec.InternalTrafficPolicy
	return inside != nil && *inside == corev1.ServiceInternalTrafficPolicyLocal ||
		svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// servicePolicies lists the Services that depend on kube-proxy's node name and on its rewriting of source addresses.
func servicePolicies(s *cluster.Snapshot, report func(probe.Result)) {
	if s.AllServices.Err != nil {
		report(apicheck.Unread(s.AllServices.Err))
		return
	}
	var local, filtered []string
	by := ""
	for i := range s.AllServices.Value {
		svc := &s.AllServices.Value[i]
		if isIgnored(svc) || len(svc.Spec.Selector) == 0 {
			continue
		}
		name := svc.Namespace + "/" + svc.Name
		if usesLocal(svc) {
			local = append(local, name)
		}
		if policy := s.Policies.BySource(svc.Namespace, svc.Spec.Selector); policy != "" {
			filtered = append(filtered, name)
			if by == "" {
				by = policy
			}
		}
	}
	slices.Sort(local)
	slices.Sort(filtered)
	if len(local) > 0 {
		report(probe.Found(probe.Info, "%s use only local endpoints (a traffic policy is Local): %s",
			cluster.Plural(len(local), "service"), cluster.Few(local)).
			On(facts.ServicesLocal).With(facts.Services, cluster.Few(local)))
	}
	if len(filtered) > 0 {
		report(probe.Found(probe.Info, "policies such as %s let only certain pods reach %s: %s",
			by, cluster.Plural(len(filtered), "service"), cluster.Few(filtered)).
			On(facts.ServicesBySource).With(facts.Services, cluster.Few(filtered)).
			With(facts.Policy, by))
	}
	if len(local)+len(filtered) == 0 {
		report(probe.Found(probe.OK, "%s checked: no traffic policy Local, and no policy that lets only certain pods in",
			cluster.Plural(len(s.AllServices.Value), "service")))
	}
}
