package api

import (
	"errors"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestServiceClaims checks that a Service is named which claims an address of the node and a port that the node needs.
func TestServiceClaims(t *testing.T) {
	t.Parallel()
	of := func(port int32, protocol corev1.Protocol, external ...string) corev1.Service {
		s := corev1.Service{}
		s.Namespace, s.Name, s.Spec.ExternalIPs = "kube-system", "bad-ext", external
		s.Spec.Ports = []corev1.ServicePort{{Port: port, Protocol: protocol}}
		s.Spec.ClusterIP = "10.96.1.1"
		return s
	}
	left := func(change func(*corev1.Service)) corev1.Service {
		s := of(10250, "TCP", "10.0.0.1")
		change(&s)
		return s
	}
	balanced := func(mode *corev1.LoadBalancerIPMode) corev1.Service {
		s := of(10250, "TCP")
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.0.0.1", IPMode: mode}}
		return s
	}
	proxied := corev1.LoadBalancerIPModeProxy
	const saw = "TCP 10250 (the kubelet's) of 10.0.0.1 go to the pods of Service kube-system/bad-ext, which claims that address through "
	for name, c := range map[string]struct {
		service corev1.Service
		status  probe.Status
		saw     string
	}{
		"recorded: externalIPs": {of(10250, "TCP", "10.0.0.1"), probe.Fail, saw + "externalIPs"},
		"no protocol":           {of(10250, "", "10.0.0.1"), probe.Fail, saw},
		"a load balancer":       {balanced(nil), probe.Fail, saw + "its load balancer"},
		"BGP":                   {of(179, "TCP", "10.0.0.1"), probe.Fail, "TCP 179 (BGP)"},
		"VXLAN":                 {of(4789, "UDP", "10.0.0.1"), probe.Fail, "UDP 4789"},
		"an API server here":    {of(6443, "TCP", "10.0.0.1"), probe.Fail, "TCP 6443 (the API server's)"},
		"a tenant's": {left(func(s *corev1.Service) { s.Namespace = "team-a" }), probe.Warn,
			"the kubelet's"},
		"ssh":                         {of(22, "TCP", "10.0.0.1"), probe.Warn, "TCP 22 (sshd's)"},
		"near: a web page":            {of(443, "TCP", "10.0.0.1"), probe.OK, "1 service checked"},
		"near: by UDP":                {of(10250, "UDP", "10.0.0.1"), probe.OK, ""},
		"near: another node's":        {of(10250, "TCP", "10.0.0.2"), probe.OK, ""},
		"near: proxied":               {balanced(&proxied), probe.OK, ""},
		"near: Typha is on no node":   {of(5473, "TCP", "10.0.0.1"), probe.OK, ""},
		"near: an address of its own": {of(10250, "TCP"), probe.OK, ""},
		"near: headless":              {left(func(s *corev1.Service) { s.Spec.ClusterIP = "None" }), probe.OK, ""},
		"near: a name of another's":   {left(func(s *corev1.Service) { s.Spec.Type = "ExternalName" }), probe.OK, ""},
		"near: another proxy's": {left(func(s *corev1.Service) {
			s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "mine"}
		}), probe.OK, ""},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""), clustertest.Node("b", "10.0.0.2", ""))
		s.API.Value = []probe.Target{{Name: "endpoint", Addr: netip.MustParseAddr("10.0.0.1"), Port: 6443}}
		s.Pools.Value = cluster.Specs{"p": {"vxlanMode": "CrossSubnet"}}
		s.AllServices.Value = []corev1.Service{c.service}
		got := ask(t, s, facts.CheckServiceClaims)
		t.Run(name, func(t *testing.T) { clustertest.WantFirst(t, got, c.status, c.saw) })
	}
	configured := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	configured.Peering.Configs.Value = cluster.Specs{"default": {"listenPort": int64(1790)}}
	configured.Felix.Value = map[string]any{"vxlanPort": int64(4799), "bpfEnabled": true}
	for service, want := range map[*corev1.Service]probe.Status{
		new(of(179, "TCP", "10.0.0.1")): probe.OK, new(of(1790, "TCP", "10.0.0.1")): probe.Fail,
		new(of(4789, "UDP", "10.0.0.1")): probe.OK, new(of(4799, "UDP", "10.0.0.1")): probe.Fail,
	} {
		configured.AllServices.Value = []corev1.Service{*service}
		clustertest.WantFirst(t, ask(t, configured, facts.CheckServiceClaims), want, "")
	}
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	s.AllServices.Err = errors.New("no way")
	clustertest.WantFirst(t, ask(t, s, facts.CheckServiceClaims), probe.Unknown, "no way")
}

// TestTenantsLoadBalancer writes a node's address into the status of a tenant's Service: every right in a namespace
// covers services/status.
func TestTenantsLoadBalancer(t *testing.T) {
	t.Parallel()
	s := clustertest.Snapshot(clustertest.Node("node-a", "10.0.0.1", "10.0.0.1/24"))
	svc := corev1.Service{}
	svc.Namespace, svc.Name = "team-a", "mine"
	svc.Spec.Type, svc.Spec.ClusterIP = corev1.ServiceTypeLoadBalancer, "10.96.0.77"
	svc.Spec.Ports = []corev1.ServicePort{{Port: 10250, Protocol: corev1.ProtocolTCP}}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}}
	s.AllServices.Value = []corev1.Service{svc}
	clustertest.WantFirst(t, ask(t, s, facts.CheckServiceClaims), probe.Warn, "team-a/mine")
}
