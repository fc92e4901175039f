package api

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// need is a port of the node that must stay reachable.
type need struct {
	protocol corev1.Protocol
	port     int
	what     string
	people   bool // only people use it, and may want a Service there
}

// needsOf are the ports of the node that a Service must not claim.
func needsOf(s *cluster.Snapshot) []need {
	kubelet := 10250
	if n := int(s.Node.Status.DaemonEndpoints.KubeletEndpoint.Port); n > 0 {
		kubelet = n
	}
	out := []need{
		{corev1.ProtocolTCP, kubelet, "the kubelet's", false}, {corev1.ProtocolTCP, 22, "sshd's", true},
		{corev1.ProtocolTCP, 9099, "Felix's health", true}, {corev1.ProtocolTCP, 10256, "kube-proxy's health", true},
	}
	vxlan := func(spec map[string]any) bool {
		return spec["vxlanMode"] == "Always" || spec["vxlanMode"] == "CrossSubnet"
	}
	// The eBPF data plane forwards NodePort packets to other nodes over VXLAN.
	if s.Felix.Value["bpfEnabled"] == true || slices.ContainsFunc(slices.Collect(maps.Values(s.Pools.Value)), vxlan) {
		port, _ := s.Felix.Value["vxlanPort"].(int64)
		out = append(out, need{corev1.ProtocolUDP, cmp.Or(int(port), cluster.PortVXLAN), "VXLAN", false})
	}
	if s.Backend.Value == "" || s.Backend.Value == "bird" {
		out = append(out, need{corev1.ProtocolTCP, cmp.Or(s.Peering.Port(s.Node), cluster.DefaultBGPPort), "BGP", false})
	}
	own := cluster.InternalIPs(s.Node)
	for what, at := range map[string][]probe.Target{"the API server's": s.API.Value, "etcd's": s.Etcd.Value,
		"Typha's": s.Typha.Value.Targets} {
		for _, t := range at {
			taken := func(n need) bool { return n.port == t.Port && n.protocol == corev1.ProtocolTCP }
			if slices.Contains(own, t.Addr) && !slices.ContainsFunc(out, taken) {
				out = append(out, need{corev1.ProtocolTCP, t.Port, what, false})
			}
		}
	}
	return out
}

// fieldExternalIPs is the field of a Service in which its owner lists addresses.
const fieldExternalIPs = "externalIPs"

// claimedAddresses are the node's addresses that a Service claims, and the field that claims them.
func claimedAddresses(svc *corev1.Service, own []netip.Addr) (addrs []string, by string) {
	add := func(text, field string) {
		a, err := netip.ParseAddr(text)
		if err == nil && slices.Contains(own, a.Unmap()) && !slices.Contains(addrs, a.Unmap().String()) {
			addrs, by = append(addrs, a.Unmap().String()), field
		}
	}
	for _, ip := range svc.Spec.ExternalIPs {
		add(ip, fieldExternalIPs)
	}
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP { // kube-proxy ignores the other modes
			add(in.IP, "its load balancer")
		}
	}
	return addrs, by
}

// isIgnored reports whether kube-proxy ignores a Service and its addresses.
func isIgnored(svc *corev1.Service) bool {
	_, other := svc.Labels[cluster.ProxyName]
	_, headless := svc.Labels[corev1.IsHeadlessService]
	return other || headless || svc.Spec.Type == corev1.ServiceTypeExternalName ||
		svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == corev1.ClusterIPNone
}

// isByTenant reports whether a tenant may have chosen a Service's address, in its spec or its load balancer status. A
// tenant's rights in a namespace may include both. System namespaces do not belong to tenants. The node's own checks
// show whether kube-proxy applies the Service.
func isByTenant(s *cluster.Snapshot, svc *corev1.Service) bool {
	return svc.Namespace != metav1.NamespaceSystem && !slices.Contains(s.CalicoIn, svc.Namespace)
}

// serviceClaims reports Services that claim an address of the node with a port that the node needs.
func serviceClaims(s *cluster.Snapshot, report func(probe.Result)) {
	if s.AllServices.Err != nil {
		report(apicheck.Unread(s.AllServices.Err))
		return
	}
	own, needs, found := cluster.InternalIPs(s.Node), needsOf(s), false
	for i := range s.AllServices.Value {
		svc := &s.AllServices.Value[i]
		addrs, by := claimedAddresses(svc, own)
		if len(addrs) == 0 || isIgnored(svc) {
			continue
		}
		status, taken, ports := probe.Warn, []string{}, []int{}
		for _, p := range svc.Spec.Ports {
			for _, n := range needs {
				if n.port != int(p.Port) || n.protocol != p.Protocol && (p.Protocol != "" || n.protocol != corev1.ProtocolTCP) {
					continue
				}
				ports = append(ports, n.port)
				taken = append(taken, fmt.Sprintf("%s %d (%s)", n.protocol, n.port, n.what))
				if !n.people && !isByTenant(s, svc) {
					status = probe.Fail
				}
			}
		}
		if len(taken) == 0 {
			continue
		}
		found = true
		name := svc.Namespace + "/" + svc.Name
		report(probe.Found(status, "packets to %s of %s go to the pods of Service %s, which claims that address through %s",
			strings.Join(taken, ", "), strings.Join(addrs, ", "), name, by).On(name).With(facts.Service, name).
			With(facts.TakenPorts, ports))
	}
	if !found {
		report(probe.Found(probe.OK, "%s checked: the node keeps all ports that it needs",
			cluster.Plural(len(s.AllServices.Value), "service")))
	}
}
