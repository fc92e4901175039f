package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// keepsLocal tells whether a service uses only endpoints of the node that is asked, in part or always.
func keepsLocal(svc *corev1.Service) bool {
	inside := svc.Spec.InternalTrafficPolicy
	return inside != nil && *inside == corev1.ServiceInternalTrafficPolicyLocal ||
		svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// bySource is the policy that lets pods with these labels be reached by some pods alone, and by nobody else, ""
// where there is none, where some rule lets others in too, and where not all policies are worked out.
func (p policies) bySource(namespace string, of map[string]string) string {
	if p.all.Err != nil || p.other != nil {
		return ""
	}
	with, name := withCalicos(namespace, of), ""
	for i := range p.all.Value {
		one := &p.all.Value[i]
		rules, about := one.rules[probe.DeniesIngress]
		hold := p.holds(one, &end{namespace: namespace, labels: with})
		if !about || hold == no {
			continue
		}
		if hold == maybe {
			return ""
		}
		for _, r := range rules {
			if r.action != "Allow" || !r.pods {
				return ""
			}
			name = one.name
		}
	}
	return name
}

// fromPods tells whether a rule of a NetworkPolicy is about pods alone: none of its peers is a range of addresses.
func fromPods(peers []networkingv1.NetworkPolicyPeer) bool {
	addresses := func(p networkingv1.NetworkPolicyPeer) bool { return p.IPBlock != nil }
	return len(peers) > 0 && !slices.ContainsFunc(peers, addresses)
}

// fromSelected tells whether a rule of Calico's is about senders with labels alone.
func fromSelected(r map[string]any) bool {
	source, _ := r["source"].(map[string]any)
	text, _ := source["selector"].(string)
	of, _ := source["namespaceSelector"].(string)
	nets, _ := source["nets"].([]any)
	return (text != "" && text != "all()" || of != "") && len(nets) == 0
}

// servicePolicies lists the services for which it matters how kube-proxy knows the node and rewrites senders.
func servicePolicies(s *Snapshot, report func(probe.Result)) {
	if s.allServices.Err != nil {
		report(unread(s.allServices.Err))
		return
	}
	var local, filtered []string
	by := ""
	for i := range s.allServices.Value {
		svc := &s.allServices.Value[i]
		if ignored(svc) || len(svc.Spec.Selector) == 0 {
			continue
		}
		name := svc.Namespace + "/" + svc.Name
		if keepsLocal(svc) {
			local = append(local, name)
		}
		if policy := s.policies.bySource(svc.Namespace, svc.Spec.Selector); policy != "" {
			filtered = append(filtered, name)
			if by == "" {
				by = policy
			}
		}
	}
	slices.Sort(local)
	slices.Sort(filtered)
	if len(local) > 0 {
		report(probe.Found(probe.Info, "%s use only endpoints of the node that is asked (a traffic policy is Local): %s",
			plural(len(local), "service"), few(local)).On(facts.ServicesLocal).With(facts.Services, few(local)))
	}
	if len(filtered) > 0 {
		report(probe.Found(probe.Info, "the pods of %s are let be reached by certain pods alone, such as by %s: %s",
			plural(len(filtered), "service"), by, few(filtered)).On(facts.ServicesBySource).With(facts.Services, few(filtered)).
			With(facts.Policy, by))
	}
	if len(local)+len(filtered) == 0 {
		report(probe.Found(probe.OK, "none of %s has a traffic policy Local, or pods that are reached by certain pods alone",
			plural(len(s.allServices.Value), "service")))
	}
}
