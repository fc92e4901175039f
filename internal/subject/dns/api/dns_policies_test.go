package api

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// toWeb allows egress of pods to a port of others; toDNS is the DNS rule of the Kubernetes documentation.
const (
	toWeb = "egress: [{to: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 8080, protocol: TCP}]}]"
	toDNS = "egress: [{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}, " +
		"podSelector: {matchLabels: {k8s-app: kube-dns}}}], ports: [{port: 53, protocol: UDP}]}]"
)

// kubernetesPolicy is a NetworkPolicy of namespace shop with the egress of some YAML.
func kubernetesPolicy(t *testing.T, name, text string) netpolicy.Policy {
	t.Helper()
	return clustertest.PolicyOf(t, "shop", name, text, networkingv1.PolicyTypeEgress)
}

// TestDNSPolicies checks that pods are reported which may reach others, but certainly not DNS. It expects no report if
// that is uncertain or may be intended.
func TestDNSPolicies(t *testing.T) {
	t.Parallel()
	k := func(texts ...string) (out []netpolicy.Policy) {
		for _, text := range texts {
			out = append(out, kubernetesPolicy(t, "p", text))
		}
		return out
	}
	c := func(texts ...string) (out []netpolicy.Policy) {
		for _, text := range texts {
			out = append(out, clustertest.OfCalico(t, "p", text))
		}
		return out
	}
	onDNS := func(texts ...string) (out []netpolicy.Policy) {
		for _, text := range texts {
			out = append(out, clustertest.PolicyOf(t, "kube-system", "p", text, networkingv1.PolicyTypeIngress))
		}
		return out
	}
	const missed = "the policy's rule for the DNS port does not match cluster DNS over UDP, and no other rule allows it: shop/web"
	const denied = "the policy allows egress of 1 of 1 pods that use cluster DNS, but not to cluster DNS over UDP: shop/web"
	const noEgress = "the policy denies all egress of 1 of 1 pods that use cluster DNS, so these pods cannot resolve names: shop/web"
	for name, one := range map[string]struct {
		policies []netpolicy.Policy
		want     probe.Status
		saw      string
	}{
		"recorded: a port of others": {k(toWeb), probe.Warn, denied},
		"beside one that denies all": {k("{}", toWeb), probe.Warn, denied},
		"by TCP alone":               {k("egress: [{ports: [{port: 53}, {port: 5353}]}]"), probe.Warn, missed},
		"the DNS in another namespace": {k("egress: [{to: [{podSelector: {matchLabels: {k8s-app: kube-dns}}}]}]"),
			probe.Warn, denied},
		"another namespace by its name": {k("egress: [{to: [{namespaceSelector: {matchExpressions: " +
			"[{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}}]}]"), probe.Warn, denied},
		"other ports": {k("egress: [{ports: [{port: 443}, {port: 1000, endPort: 2000, protocol: UDP}]}]"), probe.Warn, denied},
		"Calico's":    {c("{selector: app == 'web', egress: [{action: Allow, protocol: TCP, destination: {ports: [443]}}]}"), probe.Warn, denied},
		"Calico's, by number": {c("{egress: [{action: Allow, protocol: 6}, {action: Deny}]}"),
			probe.Warn, denied},
		"Calico's, beside one that passes over all": {c("{tier: first, egress: [{action: Pass}]}",
			"{egress: [{action: Allow, protocol: TCP}]}"), probe.Warn, denied},
		"Calico's, in a namespace": {[]netpolicy.Policy{clustertest.OfCalico(t, "shop/p", "{egress: [{action: Allow, protocol: TCP}]}")},
			probe.Warn, denied},

		"the DNS lets TCP in alone": {onDNS("ingress: [{ports: [{port: 53}, {port: 9153}]}]"), probe.Fail,
			"no policy allows UDP 53 to these pods, only TCP"},
		"the DNS lets nothing in": {onDNS("{}"), probe.Fail, "no policy allows UDP 53"},
		"near: the DNS lets UDP in too": {onDNS("ingress: [{ports: [{port: 53}]}]",
			"ingress: [{ports: [{port: 53, protocol: UDP}]}]"), probe.OK, ""},
		"near: the DNS lets certain pods in": {onDNS(
			"ingress: [{from: [{namespaceSelector: {}}], ports: [{port: 53, protocol: UDP}]}]"), probe.OK, ""},

		"near: no policy":        {nil, probe.OK, "no policy clearly blocks cluster DNS for any of 1 pod"},
		"near: DNS too":          {k(toWeb, toDNS), probe.OK, ""},
		"all is denied":          {k("{}"), probe.Warn, noEgress},
		"addresses alone":        {k("egress: [{to: [{ipBlock: {cidr: 192.0.2.0/24}}]}]"), probe.Warn, denied},
		"near: other pods":       {k("podSelector: {matchLabels: {app: db}}\n" + toWeb), probe.OK, ""},
		"near: a port by name":   {k("egress: [{ports: [{port: dns, protocol: UDP}]}]"), probe.OK, ""},
		"near: a range of ports": {k("egress: [{ports: [{port: 50, endPort: 60, protocol: UDP}]}]"), probe.OK, ""},
		"near: every port":       {k(toWeb, "egress: [{ports: [{protocol: UDP}]}]"), probe.OK, ""},
		"near: the network of the server": {k(toWeb, "egress: [{to: [{ipBlock: {cidr: 10.244.0.0/16}}]}]"),
			probe.OK, ""},
		"near: an address with the port": {k(toWeb,
			"egress: [{to: [{ipBlock: {cidr: 169.254.25.10/32}}], ports: [{port: 53, protocol: UDP}]}]"), probe.OK, ""},
		"near: a namespace by its labels": {k(toWeb, "egress: [{to: [{namespaceSelector: {matchLabels: {role: system}}}]}]"),
			probe.OK, ""},
		"near: Calico's rule for the DNS": {c("{egress: [{action: Allow, protocol: TCP}, {action: Allow, protocol: UDP, " +
			"destination: {selector: k8s-app == 'kube-dns', namespaceSelector: ns == 'kube-system', ports: [53]}}]}"),
			probe.OK, ""},
		"near: Calico's Service": {c("{egress: [{action: Allow, protocol: TCP}, {action: Allow, " +
			"destination: {services: {name: kube-dns, namespace: kube-system}}}]}"), probe.OK, ""},
		"near: Calico's network": {c("{egress: [{action: Allow, protocol: TCP}, {action: Allow, destination: {nets: [10.96.0.10/32]}}]}"),
			probe.OK, ""},
		"Calico's selector, which is no NetworkSet's": {c("{egress: [{action: Allow, protocol: TCP}, {action: Allow, " +
			"destination: {selector: role == 'dns'}}]}"), probe.Warn, denied},
		"near: a cache on the node": {k(toWeb, "egress: [{to: [{ipBlock: {cidr: 169.254.25.10/32}}]}]"), probe.OK, ""},
		"all is denied before":      {append(k(toWeb), c("{order: 1, egress: [{action: Deny}]}")...), probe.Warn, noEgress},
		"near: one of the same order denies": {append(k(toDNS, toWeb), c("{order: 1000, egress: [{action: Deny}]}")...),
			probe.OK, ""},
		"near: unknown selection": {c("{egress: [{action: Allow, protocol: TCP}]}",
			"{namespaceSelector: x == 'y', egress: [{action: Allow}]}"), probe.OK, ""},
		"near: the server's account": {c("{egress: [{action: Allow, protocol: TCP}, {action: Allow, " +
			"destination: {selector: projectcalico.org/serviceaccount == 'coredns'}}]}"), probe.OK, ""},
		"near: labels of the namespace": {c("{egress: [{action: Allow, protocol: TCP}, {action: Allow, " +
			"destination: {selector: pcns.role == 'system'}}]}"), probe.OK, ""},
		"near: pods by their account": {c("{egress: [{action: Allow, protocol: TCP}]}",
			"{selector: projectcalico.org/serviceaccount == 'shop', order: 1, egress: [{action: Allow}]}"), probe.OK, ""},
		"near: pods by labels of their namespace": {c("{egress: [{action: Allow, protocol: TCP}]}",
			"{selector: pcns.role == 'shop', order: 1, egress: [{action: Allow}]}"), probe.OK, ""},
		"near: Calico's passes": {c("{egress: [{action: Allow, protocol: TCP}, {action: Pass}]}"), probe.OK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := clustertest.WithDNS()
			s.Policies.List = one.policies
			s.Policies.Sort()
			clustertest.WantFirst(t, ask(t, s, facts.CheckDNSPolicies), one.want, one.saw)
		})
	}
}

// TestDNSPoliciesAsked checks that pods with another DNS server are omitted, and that unknown policies are reported.
func TestDNSPoliciesAsked(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		change func(*cluster.Snapshot)
		want   probe.Status
		saw    string
	}{
		"a pod with the node's names": {func(s *cluster.Snapshot) {
			s.Placed.Pods.Value[0].Spec.DNSPolicy = corev1.DNSDefault
		},
			probe.OK, "for any of 0 pods"},
		"a pod of the node's network": {func(s *cluster.Snapshot) { s.Placed.Pods.Value[0].Spec.HostNetwork = true },
			probe.OK, "for any of 0 pods"},
		"the server's own port": {func(s *cluster.Snapshot) { // policies see this port, and not the Service's
			s.DNS.Value.Targets[1].Port = 5353
			s.Policies.List = append(s.Policies.List, kubernetesPolicy(t, "q", toDNS))
		}, probe.Warn, "shop/web"},
		"near: the server's own port": {func(s *cluster.Snapshot) {
			s.DNS.Value.Targets[1].Port = 5353
			s.Policies.List = append(s.Policies.List,
				kubernetesPolicy(t, "q", strings.ReplaceAll(toDNS, "53", "5353")))
		}, probe.OK, "no policy clearly blocks cluster DNS for any of 1 pod"},
		"no port is known": {func(s *cluster.Snapshot) {
			s.DNS.Value.Targets = nil
			s.Policies.List = []netpolicy.Policy{kubernetesPolicy(t, "p", "egress: [{ports: [{port: 7, protocol: UDP}, {port: 8}]}]")}
		}, probe.OK, "no policy clearly blocks cluster DNS for any of 1 pod"},
		"one of two servers is let out to": {func(s *cluster.Snapshot) {
			other := s.DNSServers.Value.Pods[0]
			other.Labels = map[string]string{"k8s-app": "kube-dns", "app": "web"}
			s.DNSServers.Value.Pods = append(s.DNSServers.Value.Pods, other)
			s.Policies.List = []netpolicy.Policy{kubernetesPolicy(t, "p", "egress: [{to: [{namespaceSelector: {}, "+
				"podSelector: {matchLabels: {app: web}}}]}]")}
		}, probe.OK, "no policy clearly blocks cluster DNS for any of 1 pod"},
		"its labels are the tenant's": {func(s *cluster.Snapshot) {
			s.Placed.Pods.Value[0].Labels["projectcalico.org/namespace"] = "kube-system"
			s.Policies.List = []netpolicy.Policy{clustertest.OfCalico(t, "p", "{selector: projectcalico.org/namespace == 'shop', "+
				"egress: [{action: Allow, protocol: TCP}]}")}
		}, probe.Warn, "shop/web"},
		"DNS unread": {func(s *cluster.Snapshot) { s.DNS.Err = errors.New("gone") }, probe.Skip,
			"no cluster DNS pod"},
		"no DNS":      {func(s *cluster.Snapshot) { s.DNS.Value.Service = nil }, probe.Skip, "no cluster DNS pod"},
		"pods unread": {func(s *cluster.Snapshot) { s.Placed.Pods.Err = errors.New("gone") }, probe.Unknown, "gone"},
		"policies unread": {func(s *cluster.Snapshot) { s.Policies.Unread = errors.New("refused") },
			probe.Info, "unknown: refused"},
	} {
		s := clustertest.WithDNS()
		s.Policies.List = []netpolicy.Policy{kubernetesPolicy(t, "p", toWeb)}
		one.change(s)
		t.Run(name, func(t *testing.T) { clustertest.WantFirst(t, ask(t, s, facts.CheckDNSPolicies), one.want, one.saw) })
	}
}

// TestDNSPoliciesTakeTurns checks that a policy is found although another namespace exceeds maxPodKinds, and that the
// number of skipped pods is reported.
func TestDNSPoliciesTakeTurns(t *testing.T) {
	t.Parallel()
	s := clustertest.WithDNS()
	web := s.Placed.Pods.Value[0]
	s.Placed.Pods.Value = nil
	for i := range maxPodKinds + 5 {
		other := *web.DeepCopy()
		other.Namespace, other.Name, other.Labels = "crowd", fmt.Sprint("p", i), map[string]string{"own": fmt.Sprint(i)}
		s.Placed.Pods.Value = append(s.Placed.Pods.Value, other)
	}
	s.Placed.Pods.Value = append(s.Placed.Pods.Value, web)
	s.Policies.List = []netpolicy.Policy{kubernetesPolicy(t, "p", toWeb)}
	var got []string
	dnsPolicies(s, func(r probe.Result) { got = append(got, r.Target+": "+r.Saw) })
	const want = "NetworkPolicy shop/p: the policy allows egress of 1 of 40 pods that use cluster DNS, but not to cluster DNS over " +
		"UDP: shop/web; 6 more pods not evaluated: more than 40 kinds of pods"
	if len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// threatFeed denies the networks of a network set, and allows the rest.
const threatFeed = "{namespaceSelector: has(kubernetes.io/metadata.name), egress: [{action: Deny, destination: " +
	"{selector: feed == 'x', notSelector: feed == 'y'}}, {action: Allow}]}"

// TestExactPolicies evaluates policies with network sets, namespace labels, and conditions on both ends.
func TestExactPolicies(t *testing.T) {
	t.Parallel()
	set := func(nets ...string) netpolicy.Set {
		return netpolicy.NewSet("", "bad", map[string]string{"feed": "x"}, nets)
	}
	for name, one := range map[string]struct {
		policies []netpolicy.Policy
		change   func(*cluster.Snapshot)
		want     probe.Status
		saw      string
	}{
		"a threat feed has the pods' network": {[]netpolicy.Policy{clustertest.OfCalico(t, "p", threatFeed)},
			func(s *cluster.Snapshot) {
				s.Policies.Sets = []netpolicy.Set{set("192.0.2.0/24", "10.0.0.0/8", "fd00::/8")}
			},
			probe.Fail,
			"a rule of the policy denies pods access to GlobalNetworkSet bad (10.0.0.0/8), which contains cluster DNS"},
		"near: a feed of others": {[]netpolicy.Policy{clustertest.OfCalico(t, "p", threatFeed)},
			func(s *cluster.Snapshot) { s.Policies.Sets = []netpolicy.Set{set("192.0.2.0/24")} }, probe.OK, ""},
		"near: of the Service's network, before it is translated": {[]netpolicy.Policy{clustertest.OfCalico(t, "p", threatFeed)},
			func(s *cluster.Snapshot) { s.Policies.Sets = []netpolicy.Set{set("10.96.0.0/12")} }, probe.OK, ""},
		"near: unknown sets": {[]netpolicy.Policy{clustertest.OfCalico(t, "p", threatFeed)},
			func(s *cluster.Snapshot) { s.Policies.SetsUnread = errors.New("gone") }, probe.OK, ""},
		"none is let out": {[]netpolicy.Policy{clustertest.OfCalico(t, "p", "{egress: [{action: Deny, destination: {nets: [0.0.0.0/0]}}]}")},
			func(*cluster.Snapshot) {}, probe.Warn, "the policy denies all egress of 1 of 1 pods"},
		"networks, not the DNS's": {[]netpolicy.Policy{clustertest.OfCalico(t, "p", "{egress: [{action: Deny, destination: {nets: "+
			"[10.0.0.0/8], notNets: [10.244.0.0/24]}}, {action: Allow}]}")}, func(*cluster.Snapshot) {}, probe.OK, ""},
		"networks": {[]netpolicy.Policy{clustertest.OfCalico(t, "p", "{egress: [{action: Deny, destination: {nets: "+
			"[10.0.0.0/8]}}, {action: Allow}]}")}, func(*cluster.Snapshot) {}, probe.Fail, "a rule of the policy denies"},
		"near: networks, with a rule before": {[]netpolicy.Policy{clustertest.OfCalico(t, "p", "{egress: [{action: Allow, destination: "+
			"{services: {name: kube-dns, namespace: kube-system}}}, {action: Deny, destination: {nets: "+
			"[10.0.0.0/8]}}, {action: Allow}]}")}, func(*cluster.Snapshot) {}, probe.OK, ""},
		"near: networks of TCP": {[]netpolicy.Policy{clustertest.OfCalico(t, "p", "{egress: [{action: Deny, notProtocol: UDP, destination: {nets: "+
			"[10.0.0.0/8]}}, {action: Allow}]}")}, func(*cluster.Snapshot) {}, probe.OK, ""},
		"a namespace without the label": {[]netpolicy.Policy{kubernetesPolicy(t, "p", "egress: [{to: [{namespaceSelector: "+
			"{matchLabels: {name: kube-system}}}], ports: [{port: 53, protocol: UDP}]}]")},
			func(s *cluster.Snapshot) {
				s.Policies.Names = map[string]map[string]string{"kube-system": {}, "shop": {}}
			}, probe.Warn,
			"the policy's rule for the DNS port does not match"},
		"near: a namespace with the label": {[]netpolicy.Policy{kubernetesPolicy(t, "p", "egress: [{to: [{namespaceSelector: "+
			"{matchLabels: {name: kube-system}}}], ports: [{port: 53, protocol: UDP}]}]")}, func(s *cluster.Snapshot) {
			s.Policies.Names = map[string]map[string]string{"kube-system": {"name": "kube-system"}, "shop": {}}
		}, probe.OK, ""},
		"near: unknown labels": {[]netpolicy.Policy{kubernetesPolicy(t, "p", "egress: [{to: [{namespaceSelector: "+
			"{matchLabels: {name: kube-system}}}], ports: [{port: 53, protocol: UDP}]}]")}, func(*cluster.Snapshot) {}, probe.OK, ""},
		"the DNS lets another namespace in": {[]netpolicy.Policy{clustertest.PolicyOf(t, "kube-system", "p", "ingress: [{from: [{namespaceSelector: "+
			"{matchLabels: {dns: 'yes'}}}]}]", "Ingress")},
			func(s *cluster.Snapshot) {
				s.Policies.Names = map[string]map[string]string{"kube-system": {}, "shop": {}}
			}, probe.Fail,
			"blocks all 1 pods on the node outside kube-system"},
		"near: the DNS lets that namespace in": {[]netpolicy.Policy{clustertest.PolicyOf(t, "kube-system", "p", "ingress: [{from: [{namespaceSelector: "+
			"{matchLabels: {dns: 'yes'}}}]}]", "Ingress")},
			func(s *cluster.Snapshot) { s.Policies.Names = map[string]map[string]string{"shop": {"dns": "yes"}} }, probe.OK, ""},
		"near: TCP alone, and a cache": {[]netpolicy.Policy{clustertest.PolicyOf(t, "kube-system", "p", "ingress: [{ports: [{port: 53}]}]", "Ingress")},
			func(s *cluster.Snapshot) {
				cache := corev1.Pod{}
				cache.Name, cache.Spec.HostNetwork = "node-local-dns-x", true
				s.Placed.Pods.Value = append(s.Placed.Pods.Value, cache)
			}, probe.Warn, "only TCP"},
	} {
		t.Run(name, func(t *testing.T) {
			s := clustertest.WithDNS()
			s.Policies.List = one.policies
			s.Policies.Sort()
			one.change(s)
			clustertest.WantFirst(t, ask(t, s, facts.CheckDNSPolicies), one.want, one.saw)
		})
	}
}
