package cluster

import (
	"net/netip"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestAPIPolicies wants a policy that surely denies CoreDNS the API server, and none that may let it out.
func TestAPIPolicies(t *testing.T) {
	t.Parallel()
	const egress = networkingv1.PolicyTypeEgress
	for name, one := range map[string]struct {
		policy netpolicy.Policy
		want   probe.Status
		saw    string
	}{
		"recorded: the DNS alone": {policyOf(t, "kube-system", "p", "egress: [{ports: [{port: 53, protocol: UDP}]}]", egress),
			probe.Fail, "denies them the API server (TCP 6443): kube-system/coredns-1"},
		"another port":         {policyOf(t, "kube-system", "p", "egress: [{ports: [{port: 443}]}]", egress), probe.Fail, "TCP 6443"},
		"near: its port":       {policyOf(t, "kube-system", "p", "egress: [{ports: [{port: 6443}]}]", egress), probe.OK, ""},
		"near: the Service":    {policyOf(t, "kube-system", "p", "egress: [{to: [{ipBlock: {cidr: 10.96.0.1/32}}]}]", egress), probe.OK, ""},
		"near: its network":    {policyOf(t, "kube-system", "p", "egress: [{to: [{ipBlock: {cidr: 10.0.0.0/16}}]}]", egress), probe.OK, ""},
		"near: another's":      {policyOf(t, "shop", "p", "{}", egress), probe.OK, ""},
		"near: a HostEndpoint": {OfCalico(t, "p", "{egress: [{action: Allow, destination: {selector: has(role)}}]}"), probe.OK, ""},
		"near: Calico's Service": {OfCalico(t, "p", "{egress: [{action: Allow, destination: {services: {name: kubernetes, namespace: default}}}]}"),
			probe.OK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := withDNS()
			s.api.Value = []probe.Target{{Name: "service", Addr: netip.MustParseAddr("10.96.0.1"), Port: 443},
				{Name: "endpoint", Addr: netip.MustParseAddr("10.0.0.9"), Port: 6443}}
			s.policies.List = []netpolicy.Policy{one.policy}
			wantFirst(t, ask(t, s, facts.CheckAPIPolicies), one.want, one.saw)
		})
	}
}
