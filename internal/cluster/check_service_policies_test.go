package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestServicePolicies wants Services with policy Local, and those whose pods are reached by certain pods alone.
func TestServicePolicies(t *testing.T) {
	t.Parallel()
	svc := func(change func(*corev1.Service)) corev1.Service {
		s := corev1.Service{}
		s.Namespace, s.Name, s.Spec.ClusterIP = "shop", "db", "10.96.1.1"
		s.Spec.Selector = map[string]string{"app": "db"}
		change(&s)
		return s
	}
	plain := svc(func(*corev1.Service) {})
	web := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
	nodes := networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}}
	np := func(rules ...networkingv1.NetworkPolicyIngressRule) policy {
		of := networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{Ingress: rules}}
		return policy{name: "NetworkPolicy shop/db-from-web", namespace: "shop",
			selects: func(l map[string]string) bool { return l["app"] == "db" }, ruling: kubernetesRuling(&of)}
	}
	from := func(peers ...networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicyIngressRule {
		return networkingv1.NetworkPolicyIngressRule{From: peers}
	}
	calico := func(source map[string]any) policy {
		return calicos("Calico's NetworkPolicy", "shop/x", map[string]any{"selector": "app == 'db'",
			"ingress": []any{map[string]any{"action": "Allow", "source": source}}})
	}
	local := corev1.ServiceInternalTrafficPolicyLocal
	for name, c := range map[string]struct {
		service  corev1.Service
		policies []policy
		status   probe.Status
		saw      string
	}{
		"externalTrafficPolicy": {svc(func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = "Local" }), nil, probe.Info, "a traffic policy is Local): shop/db"},
		"internalTrafficPolicy": {svc(func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = &local }), nil,
			probe.Info, "is Local): shop/db"},
		"recorded: by label":   {plain, []policy{np(from(web))}, probe.Info, "such as by NetworkPolicy shop/db-from-web: shop/db"},
		"Calico's":             {plain, []policy{calico(map[string]any{"selector": "app == 'web'"})}, probe.Info, "Calico's NetworkPolicy shop/x"},
		"near: no policy":      {plain, nil, probe.OK, "none of 1 service"},
		"near: addresses too":  {plain, []policy{np(from(web, nodes))}, probe.OK, ""},
		"near: another rule":   {plain, []policy{np(from(web), from())}, probe.OK, ""},
		"near: another policy": {plain, []policy{np(from(web)), np(from(nodes))}, probe.OK, ""},
		"near: denies all":     {plain, []policy{np()}, probe.OK, ""},
		"near: Calico's nets":  {plain, []policy{calico(map[string]any{"nets": []any{"10.0.0.0/8"}})}, probe.OK, ""},
		"near: everybody":      {plain, []policy{calico(map[string]any{"selector": "all()"})}, probe.OK, ""},
		"near: headless": {svc(func(s *corev1.Service) { s.Spec.ClusterIP = "None" }), []policy{np(from(web))},
			probe.OK, ""},
	} {
		s := snapshot(node("a", "10.0.0.1", ""))
		s.allServices.Value, s.policies.all.Value = []corev1.Service{c.service}, c.policies
		got := ask(t, s, facts.CheckServicePolicies)
		t.Run(name, func(t *testing.T) { wantFirst(t, got, c.status, c.saw) })
	}
}
