package api

import (
	"errors"
	"net/netip"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestAPIPolicies expects a policy that certainly blocks CoreDNS from the API server, and no policy that may allow it.
func TestAPIPolicies(t *testing.T) {
	t.Parallel()
	const egress = networkingv1.PolicyTypeEgress
	for name, one := range map[string]struct {
		policy netpolicy.Policy
		want   probe.Status
		saw    string
	}{
		"recorded: the DNS alone": {clustertest.PolicyOf(t, "kube-system", "p", "egress: [{ports: [{port: 53, protocol: UDP}]}]", egress),
			probe.Fail, "the policy blocks these pods from the API server (TCP 6443): kube-system/coredns-1"},
		"another port":         {clustertest.PolicyOf(t, "kube-system", "p", "egress: [{ports: [{port: 443}]}]", egress), probe.Fail, "TCP 6443"},
		"near: its port":       {clustertest.PolicyOf(t, "kube-system", "p", "egress: [{ports: [{port: 6443}]}]", egress), probe.OK, ""},
		"near: the Service":    {clustertest.PolicyOf(t, "kube-system", "p", "egress: [{to: [{ipBlock: {cidr: 10.96.0.1/32}}]}]", egress), probe.OK, ""},
		"near: its network":    {clustertest.PolicyOf(t, "kube-system", "p", "egress: [{to: [{ipBlock: {cidr: 10.0.0.0/16}}]}]", egress), probe.OK, ""},
		"near: another's":      {clustertest.PolicyOf(t, "shop", "p", "{}", egress), probe.OK, ""},
		"near: a HostEndpoint": {clustertest.OfCalico(t, "p", "{egress: [{action: Allow, destination: {selector: has(role)}}]}"), probe.OK, ""},
		"near: Calico's Service": {clustertest.OfCalico(t, "p", "{egress: [{action: Allow, destination: {services: {name: kubernetes, namespace: default}}}]}"),
			probe.OK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := clustertest.WithDNS()
			s.API.Value = []probe.Target{{Name: "service", Addr: netip.MustParseAddr("10.96.0.1"), Port: 443},
				{Name: "endpoint", Addr: netip.MustParseAddr("10.0.0.9"), Port: 6443}}
			s.Policies.List = []netpolicy.Policy{one.policy}
			clustertest.WantFirst(t, ask(t, s, facts.CheckAPIPolicies), one.want, one.saw)
		})
	}
}

// TestPodPolicies expects each policy that selects a pod of the node, with those pods.
func TestPodPolicies(t *testing.T) {
	t.Parallel()
	s := clustertest.WithDNS()
	clustertest.WantFirst(t, ask(t, s, facts.CheckPodPolicies), probe.OK, "no policy selects any of 1 pod")
	s.Policies.List = []netpolicy.Policy{clustertest.PolicyOf(t, "shop", "deny", "{}", networkingv1.PolicyTypeEgress)}
	clustertest.WantFirst(t, ask(t, s, facts.CheckPodPolicies), probe.Info, "the policy selects 1 of 1 pod (shop/web), and denies all egress of the first pod")
	s.Policies.List = []netpolicy.Policy{clustertest.OfCalico(t, "threatfeed",
		"{selector: app == 'web', egress: [{action: Deny, destination: {selector: feed == 'x'}}, {action: Allow}]}")}
	other := s.Placed.Pods.Value[0].DeepCopy()
	other.Namespace, other.Labels = "kube-system", nil
	s.Placed.Pods.Value = append(s.Placed.Pods.Value, *other)
	clustertest.WantFirst(t, ask(t, s, facts.CheckPodPolicies), probe.Info, "the policy may block traffic of 1 of 2 pods (shop/web)")
	s.Policies.Unread = errors.New("gone")
	clustertest.WantFirst(t, ask(t, s, facts.CheckPodPolicies), probe.Info, "cannot read the policies")
}
