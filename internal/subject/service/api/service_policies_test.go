package api

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestServicePolicies checks Services with policy Local, and Services that only certain pods may reach.
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
	np := func(rules ...networkingv1.NetworkPolicyIngressRule) netpolicy.Policy {
		return netpolicy.OfKubernetes(&networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-from-web"},
			Spec: networkingv1.NetworkPolicySpec{Ingress: rules,
				PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}})
	}
	from := func(peers ...networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicyIngressRule {
		return networkingv1.NetworkPolicyIngressRule{From: peers}
	}
	calico := func(source map[string]any) netpolicy.Policy {
		return netpolicy.OfCalico("Calico's NetworkPolicy", "shop/x", map[string]any{"selector": "app == 'db'",
			"ingress": []any{map[string]any{"action": "Allow", "source": source}}})
	}
	local := corev1.ServiceInternalTrafficPolicyLocal
	for name, c := range map[string]struct {
		service  corev1.Service
		policies []netpolicy.Policy
		status   probe.Status
		saw      string
	}{
		"externalTrafficPolicy": {svc(func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = "Local" }), nil, probe.Info, "a traffic policy is Local): shop/db"},
		"internalTrafficPolicy": {svc(func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = &local }), nil,
			probe.Info, "is Local): shop/db"},
		"recorded: by label":   {plain, []netpolicy.Policy{np(from(web))}, probe.Info, "such as NetworkPolicy shop/db-from-web let only certain pods reach 1 service: shop/db"},
		"Calico's":             {plain, []netpolicy.Policy{calico(map[string]any{"selector": "app == 'web'"})}, probe.Info, "Calico's NetworkPolicy shop/x"},
		"near: no policy":      {plain, nil, probe.OK, "1 service checked"},
		"near: addresses too":  {plain, []netpolicy.Policy{np(from(web, nodes))}, probe.OK, ""},
		"near: another rule":   {plain, []netpolicy.Policy{np(from(web), from())}, probe.OK, ""},
		"near: another policy": {plain, []netpolicy.Policy{np(from(web)), np(from(nodes))}, probe.OK, ""},
		"near: denies all":     {plain, []netpolicy.Policy{np()}, probe.OK, ""},
		"near: Calico's nets": {plain, []netpolicy.Policy{calico(map[string]any{"nets": []any{"10.0.0.0/8"}})},
			probe.OK, ""},
		"near: everybody": {plain, []netpolicy.Policy{calico(map[string]any{"selector": "all()"})}, probe.OK, ""},
		"near: headless": {svc(func(s *corev1.Service) { s.Spec.ClusterIP = "None" }), []netpolicy.Policy{np(from(web))},
			probe.OK, ""},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		s.AllServices.Value, s.Policies.List = []corev1.Service{c.service}, c.policies
		got := ask(t, s, facts.CheckServicePolicies)
		t.Run(name, func(t *testing.T) { clustertest.WantFirst(t, got, c.status, c.saw) })
	}
}

// TestServiceWithoutLocalPod expects a warning only if a pod of this node may be a client of a Service with
// internalTrafficPolicy Local that has no ready pod here.
func TestServiceWithoutLocalPod(t *testing.T) {
	t.Parallel()
	local := corev1.ServiceInternalTrafficPolicyLocal
	svc := corev1.Service{}
	svc.Namespace, svc.Name, svc.Spec.ClusterIP = "shop", "db", "10.96.1.1"
	svc.Spec.Selector, svc.Spec.InternalTrafficPolicy = map[string]string{"app": "db"}, &local
	pod := func(namespace, app string, ready corev1.ConditionStatus) corev1.Pod {
		p := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
		p.Namespace, p.Name, p.Labels = namespace, app, map[string]string{"app": app}
		return p
	}
	agent := pod("shop", "agent", "True")
	agent.Spec.HostNetwork = true
	for name, c := range map[string]struct {
		pods  []corev1.Pod
		lacks bool
	}{
		"a client alone":          {[]corev1.Pod{pod("shop", "web", "True")}, true},
		"a pod that is not ready": {[]corev1.Pod{pod("shop", "db", "False"), pod("shop", "web", "True")}, true},
		"near: a local pod":       {[]corev1.Pod{pod("shop", "web", "True"), pod("shop", "db", "True")}, false},
		"near: an agent":          {[]corev1.Pod{agent}, false},
		"near: no client":         {[]corev1.Pod{pod("bank", "web", "True")}, false},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		s.AllServices.Value, s.Placed.Pods.Value = []corev1.Service{svc}, c.pods
		var warned []probe.Result
		for _, r := range ask(t, s, facts.CheckServicePolicies) {
			if r.Status == probe.Warn {
				warned = append(warned, r)
			}
		}
		if len(warned) > 0 != c.lacks || c.lacks && warned[0].Facts.Str(facts.Pod) != "shop/web" {
			t.Errorf("%s: %+v", name, warned)
		}
	}
}
