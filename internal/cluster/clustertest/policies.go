package clustertest

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
)

// PolicyOf returns a NetworkPolicy from YAML.
func PolicyOf(t *testing.T, namespace, name, text string, direction networkingv1.PolicyType) netpolicy.Policy {
	t.Helper()
	var np networkingv1.NetworkPolicy
	np.Namespace, np.Name = namespace, name
	if err := yaml.UnmarshalStrict([]byte(text), &np.Spec); err != nil {
		t.Fatal(err)
	}
	np.Spec.PolicyTypes = []networkingv1.PolicyType{direction}
	return netpolicy.OfKubernetes(&np)
}

// OfCalico returns a Calico policy from the YAML of its spec. It is namespaced if its name contains a namespace.
func OfCalico(t *testing.T, name, text string) netpolicy.Policy {
	t.Helper()
	spec := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	return netpolicy.OfCalico("Policy", name, spec)
}

// WithDNS returns a snapshot with a pod shop/web on the node, and a DNS server with its Service.
func WithDNS() *cluster.Snapshot {
	s := Snapshot(Node("a", "10.0.0.1", ""))
	s.DNS.Value.Service = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}}
	s.DNS.Value.Service.Spec.Selector = map[string]string{"k8s-app": "kube-dns"}
	server := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns-1",
		Labels: map[string]string{"k8s-app": "kube-dns", "app": "coredns"}}}
	server.Status.PodIPs, server.Spec.ServiceAccountName = []corev1.PodIP{{IP: "fd00::5"}, {IP: "10.244.0.5"}}, "coredns"
	s.DNSServers.Value.Pods = []corev1.Pod{server}
	s.DNS.Value.Targets = []probe.Target{
		{Kind: probe.KindDNS, Name: "service", Addr: netip.MustParseAddr("10.96.0.10"), Port: 53},
		{Kind: probe.KindDNS, Name: "endpoint", Addr: netip.MustParseAddr("10.244.0.5"), Port: 53}}
	web := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web",
		Labels: map[string]string{"app": "web"}}}
	web.Status.PodIPs = []corev1.PodIP{{IP: "10.244.1.7"}}
	web.Spec.ServiceAccountName, web.Status.Phase = "shop", corev1.PodRunning
	s.Placed.Pods.Value = []corev1.Pod{web}
	return s
}
