package cluster

import (
	"errors"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

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
	set := func(nets ...string) networkSet {
		out := networkSet{name: "GlobalNetworkSet bad", labels: map[string]string{"feed": "x"}}
		out.nets, out.bad = prefixes(nets)
		return out
	}
	for name, one := range map[string]struct {
		policies []policy
		change   func(*Snapshot)
		want     probe.Status
		saw      string
	}{
		"a threat feed has the pods' network": {[]policy{calicosPolicy(t, "p", threatFeed)},
			func(s *Snapshot) { s.policies.sets.Value = []networkSet{set("192.0.2.0/24", "10.0.0.0/8", "fd00::/8")} },
			probe.Fail,
			"a rule of it denies pods what GlobalNetworkSet bad (10.0.0.0/8) has, and with it the cluster's DNS"},
		"near: a feed of others": {[]policy{calicosPolicy(t, "p", threatFeed)},
			func(s *Snapshot) { s.policies.sets.Value = []networkSet{set("192.0.2.0/24")} }, probe.OK, ""},
		"near: of the Service's network, before it is translated": {[]policy{calicosPolicy(t, "p", threatFeed)},
			func(s *Snapshot) { s.policies.sets.Value = []networkSet{set("10.96.0.0/12")} }, probe.OK, ""},
		"near: sets are not known": {[]policy{calicosPolicy(t, "p", threatFeed)},
			func(s *Snapshot) { s.policies.sets.Err = errors.New("gone") }, probe.OK, ""},
		"none is let out": {[]policy{calicosPolicy(t, "p", "{egress: [{action: Deny, destination: {nets: [0.0.0.0/0]}}]}")},
			func(*Snapshot) {}, probe.Warn, "it denies all egress of 1 of 1 pods"},
		"networks, not the DNS's": {[]policy{calicosPolicy(t, "p", "{egress: [{action: Deny, destination: {nets: "+
			"[10.0.0.0/8], notNets: [10.244.0.0/24]}}, {action: Allow}]}")}, func(*Snapshot) {}, probe.OK, ""},
		"networks": {[]policy{calicosPolicy(t, "p", "{egress: [{action: Deny, destination: {nets: "+
			"[10.0.0.0/8]}}, {action: Allow}]}")}, func(*Snapshot) {}, probe.Fail, "a rule of it denies"},
		"near: networks, with a rule before": {[]policy{calicosPolicy(t, "p", "{egress: [{action: Allow, destination: "+
			"{services: {name: kube-dns, namespace: kube-system}}}, {action: Deny, destination: {nets: "+
			"[10.0.0.0/8]}}, {action: Allow}]}")}, func(*Snapshot) {}, probe.OK, ""},
		"near: networks of TCP": {[]policy{calicosPolicy(t, "p", "{egress: [{action: Deny, notProtocol: UDP, destination: {nets: "+
			"[10.0.0.0/8]}}, {action: Allow}]}")}, func(*Snapshot) {}, probe.OK, ""},
		"a namespace without the label": {[]policy{kubernetesPolicy(t, "p", "egress: [{to: [{namespaceSelector: "+
			"{matchLabels: {name: kube-system}}}], ports: [{port: 53, protocol: UDP}]}]")},
			func(s *Snapshot) { s.policies.names = map[string]map[string]string{"kube-system": {}, "shop": {}} }, probe.Warn,
			"its rule for the DNS port does not reach"},
		"near: a namespace with the label": {[]policy{kubernetesPolicy(t, "p", "egress: [{to: [{namespaceSelector: "+
			"{matchLabels: {name: kube-system}}}], ports: [{port: 53, protocol: UDP}]}]")}, func(s *Snapshot) {
			s.policies.names = map[string]map[string]string{"kube-system": {"name": "kube-system"}, "shop": {}}
		}, probe.OK, ""},
		"near: labels not known": {[]policy{kubernetesPolicy(t, "p", "egress: [{to: [{namespaceSelector: "+
			"{matchLabels: {name: kube-system}}}], ports: [{port: 53, protocol: UDP}]}]")}, func(*Snapshot) {}, probe.OK, ""},
		"the DNS lets another namespace in": {[]policy{policyOf(t, "kube-system", "p", "ingress: [{from: [{namespaceSelector: "+
			"{matchLabels: {dns: 'yes'}}}]}]", "Ingress")},
			func(s *Snapshot) { s.policies.names = map[string]map[string]string{"kube-system": {}, "shop": {}} }, probe.Fail,
			"blocks all 1 pods on the node outside kube-system"},
		"near: the DNS lets that namespace in": {[]policy{policyOf(t, "kube-system", "p", "ingress: [{from: [{namespaceSelector: "+
			"{matchLabels: {dns: 'yes'}}}]}]", "Ingress")},
			func(s *Snapshot) { s.policies.names = map[string]map[string]string{"shop": {"dns": "yes"}} }, probe.OK, ""},
		"near: TCP alone, and a cache": {[]policy{policyOf(t, "kube-system", "p", "ingress: [{ports: [{port: 53}]}]", "Ingress")},
			func(s *Snapshot) {
				cache := corev1.Pod{}
				cache.Name, cache.Spec.HostNetwork = "node-local-dns-x", true
				s.placed.pods.Value = append(s.placed.pods.Value, cache)
			}, probe.Warn, "only TCP"},
	} {
		t.Run(name, func(t *testing.T) {
			s := withDNS()
			s.policies.all.Value = one.policies
			s.policies.sort()
			one.change(s)
			wantFirst(t, ask(t, s, facts.CheckDNSPolicies), one.want, one.saw)
		})
	}
}

// TestAbout wants each condition of a rule of Calico's read.
func TestAbout(t *testing.T) {
	t.Parallel()
	p := policies{sets: Read[[]networkSet]{Value: []networkSet{{labels: map[string]string{"set": "a"},
		nets: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}}},
		names: map[string]map[string]string{"shop": {"team": "x"}}}
	pod := end{namespace: "shop", labels: withCalicos("shop", map[string]string{"app": "web"}),
		addrs: []netip.Addr{netip.MustParseAddr("10.244.1.7")}, ports: map[string]int{"TCP/http": 8080}}
	pod.labels[labelAccount] = "robot"
	feed := end{addrs: []netip.Addr{netip.MustParseAddr("203.0.113.5")}}
	f := flow{protocol: protocolTCP, port: 8080, from: feed, to: pod}
	type m = map[string]any
	for name, one := range map[string]struct {
		rule m
		of   string
		want answer
	}{
		"nothing":                  {m{}, "", yes},
		"protocol":                 {m{"protocol": "UDP"}, "", no},
		"not protocol":             {m{"notProtocol": "TCP"}, "", no},
		"version":                  {m{"ipVersion": int64(6)}, "", no},
		"icmp":                     {m{"protocol": "TCP", "icmp": m{"type": int64(8)}}, "", no},
		"a range":                  {m{"destination": m{"ports": []any{"8000:8100"}}}, "", yes},
		"not a range":              {m{"destination": m{"notPorts": []any{"8000:8100"}}}, "", no},
		"a name":                   {m{"destination": m{"ports": []any{"http"}}}, "", yes},
		"another name":             {m{"destination": m{"ports": []any{"https"}}}, "", no},
		"source port":              {m{"source": m{"ports": []any{int64(53)}}}, "", maybe},
		"set":                      {m{"source": m{"selector": "set == 'a'"}}, "", yes},
		"set of no namespace":      {m{"source": m{"selector": "set == 'a'", "namespaceSelector": "global()"}}, "", yes},
		"set in a namespace":       {m{"source": m{"selector": "set == 'a'"}}, "shop", no},
		"not set":                  {m{"source": m{"notSelector": "set == 'a'"}}, "", no},
		"team":                     {m{"destination": m{"namespaceSelector": "team == 'x'"}}, "", yes},
		"all namespaces":           {m{"destination": m{"namespaceSelector": "all()"}}, "", yes},
		"its own namespace":        {m{"destination": m{"selector": "app == 'web'"}}, "other", no},
		"account":                  {m{"destination": m{"serviceAccounts": m{"names": []any{"robot"}}}}, "", yes},
		"account by label":         {m{"destination": m{"serviceAccounts": m{"selector": "a == 'b'"}}}, "", maybe},
		"an address that may be a": {m{"source": m{"selector": "has(role)"}}, "", maybe},
		"Service":                  {m{"destination": m{"services": m{"name": "web", "namespace": "shop"}}}, "", maybe},
		"unreadable network":       {m{"source": m{"nets": []any{"203.0.113.0/24", "x"}}}, "", maybe},
	} {
		r := calicoRule(one.of, one.rule)
		if got := p.about(&r, &f); got != one.want {
			t.Errorf("%s: %v, want %v", name, got, one.want)
		}
	}
}
