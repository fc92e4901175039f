package api

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// maxLacking bounds the results about Services without a local pod.
const maxLacking = 5

// usesLocal reports whether a Service uses only endpoints of the client's own node, in part or always.
func usesLocal(svc *corev1.Service) bool {
	inside := svc.Spec.InternalTrafficPolicy
	return inside != nil && *inside == corev1.ServiceInternalTrafficPolicyLocal ||
		svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// clientWithout returns a running pod of the node that may use a Service which has internalTrafficPolicy Local, but no
// ready pod on this node: a pod of the same namespace that the Service does not select. Pods on the node's network,
// such as those of DaemonSets in kube-system, hardly use such Services. It returns "" if there is none.
func clientWithout(s *cluster.Snapshot, svc *corev1.Service) string {
	inside := svc.Spec.InternalTrafficPolicy
	if inside == nil || *inside != corev1.ServiceInternalTrafficPolicyLocal || s.Placed.Pods.Err != nil {
		return ""
	}
	selected, client := labels.SelectorFromSet(svc.Spec.Selector), ""
	for i := range s.Placed.Pods.Value {
		p := &s.Placed.Pods.Value[i]
		switch {
		case p.Namespace != svc.Namespace || p.Status.Phase != corev1.PodRunning:
		case selected.Matches(labels.Set(p.Labels)):
			if cluster.PodReady(p) {
				return ""
			}
		case client == "" && !p.Spec.HostNetwork:
			client = cluster.NameOf(p)
		}
	}
	return client
}

// servicePolicies lists the Services that depend on kube-proxy's node name and on its rewriting of source addresses.
func servicePolicies(s *cluster.Snapshot, report func(probe.Result)) {
	if s.AllServices.Err != nil {
		report(apicheck.Unread(s.AllServices.Err))
		return
	}
	var local, filtered []string
	var lacking []probe.Result
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
		if client := clientWithout(s, svc); client != "" && len(lacking) < maxLacking {
			lacking = append(lacking, probe.Found(probe.Warn,
				"Service %s has internalTrafficPolicy Local and no ready pod on this node: connections from this node's "+
					"pods to it, such as from %s, are dropped", name, client).
				On(facts.ServicesLacking+" "+name).With(facts.Service, name).With(facts.Pod, client))
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
	for _, r := range lacking {
		report(r)
	}
	if len(local)+len(filtered) == 0 {
		report(probe.Found(probe.OK, "%s checked: no traffic policy Local, and no policy that lets only certain pods in",
			cluster.Plural(len(s.AllServices.Value), "service")))
	}
}
