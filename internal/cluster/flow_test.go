package cluster

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// threatFeed denies what a network set has, and lets the rest out.
const threatFeed = "{namespaceSelector: has(kubernetes.io/metadata.name), egress: [{action: Deny, destination: " +
	"{selector: feed == 'x', notSelector: feed == 'y'}}, {action: Allow}]}"

// TestExactPolicies wants what policies come to for names worked out with network sets, labels of namespaces, and
// conditions on both ends.
func TestExactPolicies(t *testing.T) {
	t.Parallel()
	set := func(nets ...string) netpolicy.Set {
		return netpolicy.NewSet("", "bad", map[string]string{"feed": "x"}, nets)
	}
	for name, one := range map[string]struct {
		policies []netpolicy.Policy
		change   func(*Snapshot)
		want     probe.Status
		saw      string
	}{
		"a threat feed has the pods' network": {[]netpolicy.Policy{OfCalico(t, "p", threatFeed)},
			func(s *Snapshot) { s.policies.Sets = []netpolicy.Set{set("192.0.2.0/24", "10.0.0.0/8", "fd00::/8")} },
			probe.Fail,
			"a rule of it denies pods what GlobalNetworkSet bad (10.0.0.0/8) has, and with it the cluster's DNS"},
		"near: a feed of others": {[]netpolicy.Policy{OfCalico(t, "p", threatFeed)},
			func(s *Snapshot) { s.policies.Sets = []netpolicy.Set{set("192.0.2.0/24")} }, probe.OK, ""},
		"near: of the Service's network, before it is translated": {[]netpolicy.Policy{OfCalico(t, "p", threatFeed)},
			func(s *Snapshot) { s.policies.Sets = []netpolicy.Set{set("10.96.0.0/12")} }, probe.OK, ""},
		"near: sets are not known": {[]netpolicy.Policy{OfCalico(t, "p", threatFeed)},
			func(s *Snapshot) { s.policies.SetsUnread = errors.New("gone") }, probe.OK, ""},
		"none is let out": {[]netpolicy.Policy{OfCalico(t, "p", "{egress: [{action: Deny, destination: {nets: [0.0.0.0/0]}}]}")},
			func(*Snapshot) {}, probe.Warn, "it denies all egress of 1 of 1 pods"},
		"networks, not the DNS's": {[]netpolicy.Policy{OfCalico(t, "p", "{egress: [{action: Deny, destination: {nets: "+
			"[10.0.0.0/8], notNets: [10.244.0.0/24]}}, {action: Allow}]}")}, func(*Snapshot) {}, probe.OK, ""},
		"networks": {[]netpolicy.Policy{OfCalico(t, "p", "{egress: [{action: Deny, destination: {nets: "+
			"[10.0.0.0/8]}}, {action: Allow}]}")}, func(*Snapshot) {}, probe.Fail, "a rule of it denies"},
		"near: networks, with a rule before": {[]netpolicy.Policy{OfCalico(t, "p", "{egress: [{action: Allow, destination: "+
			"{services: {name: kube-dns, namespace: kube-system}}}, {action: Deny, destination: {nets: "+
			"[10.0.0.0/8]}}, {action: Allow}]}")}, func(*Snapshot) {}, probe.OK, ""},
		"near: networks of TCP": {[]netpolicy.Policy{OfCalico(t, "p", "{egress: [{action: Deny, notProtocol: UDP, destination: {nets: "+
			"[10.0.0.0/8]}}, {action: Allow}]}")}, func(*Snapshot) {}, probe.OK, ""},
		"a namespace without the label": {[]netpolicy.Policy{kubernetesPolicy(t, "p", "egress: [{to: [{namespaceSelector: "+
			"{matchLabels: {name: kube-system}}}], ports: [{port: 53, protocol: UDP}]}]")},
			func(s *Snapshot) { s.policies.Names = map[string]map[string]string{"kube-system": {}, "shop": {}} }, probe.Warn,
			"its rule for the DNS port does not reach"},
		"near: a namespace with the label": {[]netpolicy.Policy{kubernetesPolicy(t, "p", "egress: [{to: [{namespaceSelector: "+
			"{matchLabels: {name: kube-system}}}], ports: [{port: 53, protocol: UDP}]}]")}, func(s *Snapshot) {
			s.policies.Names = map[string]map[string]string{"kube-system": {"name": "kube-system"}, "shop": {}}
		}, probe.OK, ""},
		"near: labels not known": {[]netpolicy.Policy{kubernetesPolicy(t, "p", "egress: [{to: [{namespaceSelector: "+
			"{matchLabels: {name: kube-system}}}], ports: [{port: 53, protocol: UDP}]}]")}, func(*Snapshot) {}, probe.OK, ""},
		"the DNS lets another namespace in": {[]netpolicy.Policy{policyOf(t, "kube-system", "p", "ingress: [{from: [{namespaceSelector: "+
			"{matchLabels: {dns: 'yes'}}}]}]", "Ingress")},
			func(s *Snapshot) { s.policies.Names = map[string]map[string]string{"kube-system": {}, "shop": {}} }, probe.Fail,
			"blocks all 1 pods on the node outside kube-system"},
		"near: the DNS lets that namespace in": {[]netpolicy.Policy{policyOf(t, "kube-system", "p", "ingress: [{from: [{namespaceSelector: "+
			"{matchLabels: {dns: 'yes'}}}]}]", "Ingress")},
			func(s *Snapshot) { s.policies.Names = map[string]map[string]string{"shop": {"dns": "yes"}} }, probe.OK, ""},
		"near: TCP alone, and a cache": {[]netpolicy.Policy{policyOf(t, "kube-system", "p", "ingress: [{ports: [{port: 53}]}]", "Ingress")},
			func(s *Snapshot) {
				cache := corev1.Pod{}
				cache.Name, cache.Spec.HostNetwork = "node-local-dns-x", true
				s.placed.pods.Value = append(s.placed.pods.Value, cache)
			}, probe.Warn, "only TCP"},
	} {
		t.Run(name, func(t *testing.T) {
			s := withDNS()
			s.policies.List = one.policies
			s.policies.Sort()
			one.change(s)
			wantFirst(t, ask(t, s, facts.CheckDNSPolicies), one.want, one.saw)
		})
	}
}
