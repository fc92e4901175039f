package ask

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/node"
)

// TestOwnedBy finds another node's address on this node, and ignores pods' addresses.
func TestOwnedBy(t *testing.T) {
	t.Parallel()
	links := []kernel.Link{{Name: "eth0", Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/32")}}}
	at := func(kind, addr string) probe.Target { return probe.Target{Kind: kind, Addr: netip.MustParseAddr(addr)} }
	for want, target := range map[string]probe.Target{"eth0": at(probe.KindNode, "10.0.0.2"),
		"": at(probe.KindNode, "10.0.0.3")} {
		if got := ownedBy(links, target); got != want {
			t.Errorf("%v: %q", target, got)
		}
	}
	if got := ownedBy(links, at(probe.KindPod, "10.0.0.2")); got != "" {
		t.Errorf("a pod: %q", got)
	}
}

// TestDiversion expects the name of the rule that diverts packets, given the kernel's lookups.
func TestDiversion(t *testing.T) {
	t.Parallel()
	own := netip.MustParseAddr("10.88.0.11")
	pod := probe.Target{Kind: probe.KindLocal, Name: "default/w", Addr: netip.MustParseAddr("10.244.0.1")}
	rules := []kernel.Rule{{Priority: 30400, Table: 30400, From: netip.PrefixFrom(own, 32)}}
	gateway := netip.MustParseAddr("10.88.0.1")
	for name, c := range map[string]struct {
		with node.Leads
		want probe.Status
		saw  string
	}{
		"recorded": {node.Leads{Device: "eth0", Gateway: gateway, Table: 30400, Calicos: false}, probe.Fail, `leave by eth0 through 10.88.0.1 because of the rule "30400: from 10.88.0.11/32 lookup 30400"`},
		"near: the same way": {node.Leads{Device: "cali1", Gateway: netip.Addr{}, Table: 30400, Calicos: true}, probe.OK,
			"they do not change"},
		"near: by the main table": {node.Leads{Device: "eth1", Gateway: netip.Addr{}, Table: kernel.TableMain,
			Calicos: false}, probe.OK, "they do not change"},
	} {
		// The rule matches only the second address of the node.
		nodes := []probe.Target{{Addr: own.Next()}, {Addr: own}}
		ask := func(_, from netip.Addr, _ string) (node.Leads, bool) {
			if from == own {
				return c.with, true
			}
			return node.Leads{Device: "cali1", Table: kernel.TableMain, Calicos: true}, true
		}
		got := must.Get(findDiversion(t.Context(), rules, nodes, []probe.Target{pod}, routeLookup{ask, noWay}))(t)
		if got.Status != c.want || !strings.Contains(got.Saw, c.saw) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestDiversionByACloud has rules of a cloud's CNI, which routes its own pods with them: Calico sets no routes there.
func TestDiversionByACloud(t *testing.T) {
	t.Parallel()
	own := netip.MustParseAddr("10.0.0.1")
	nodes, pods := []probe.Target{{Addr: own}}, []probe.Target{{Kind: probe.KindPod, Addr: own.Next()}}
	rules := []kernel.Rule{{Priority: 1536, Table: 2}}
	ask := func(_, from netip.Addr, _ string) (node.Leads, bool) {
		if from.IsValid() {
			return node.Leads{Device: "eth1", Table: 2}, true
		}
		return node.Leads{Device: "eth0", Table: kernel.TableMain}, true
	}
	got, err := findDiversion(t.Context(), rules, nodes, pods, routeLookup{ask, noWay})
	if err != nil || got.Status != probe.OK {
		t.Error(got, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	pods[0].Kind = probe.KindLocal
	always := func(netip.Addr, netip.Addr, string) (node.Leads, bool) {
		return node.Leads{Device: "cali1", Calicos: true}, true
	}
	if _, err := findDiversion(ended, rules, nodes, pods, routeLookup{always, noWay}); err == nil {
		t.Error("what was not asked is called fine")
	}
}

// noWay is a main table without Calico's routes.
func noWay(netip.Addr) (node.Leads, bool) { return node.Leads{}, false }

// TestLongestMatch expects no route from the blackhole of the node's own block.
func TestLongestMatch(t *testing.T) {
	t.Parallel()
	routes := []kernel.Route{
		{To: netip.MustParsePrefix("10.244.1.0/26"), Hops: []kernel.Hop{{}}},
		{To: netip.MustParsePrefix("10.244.1.3/32"), Hops: []kernel.Hop{{Device: "cali1"}}},
		{To: netip.MustParsePrefix("10.244.0.0/16"), Hops: []kernel.Hop{{Device: "eth0"}}},
	}
	for addr, want := range map[string]string{
		"10.244.1.3": "cali1", "10.244.1.4": "", "10.244.2.1": "eth0", "10.1.1.1": "",
	} {
		if got, ok := longestMatch(routes, netip.MustParseAddr(addr)); got.Device != want || ok != (want != "") {
			t.Errorf("%s: %+v %v", addr, got, ok)
		}
	}
}

// TestDiversionOfAllSenders expects the name of a rule for all senders, such as a VPN's, if Calico has a route.
func TestDiversionOfAllSenders(t *testing.T) {
	t.Parallel()
	nodes := []probe.Target{{Addr: netip.MustParseAddr("10.88.0.11")}}
	pods := []probe.Target{{Kind: probe.KindPod, Name: "default/w", Addr: netip.MustParseAddr("10.244.2.1")}}
	rules := []kernel.Rule{{Priority: 5270, Table: 52}}
	ask := func(netip.Addr, netip.Addr, string) (node.Leads, bool) {
		return node.Leads{Device: "tailscale0", Table: 52}, true
	}
	calicos := func(netip.Addr) (node.Leads, bool) {
		return node.Leads{Device: "eth0", Gateway: netip.MustParseAddr("10.88.0.12"), Table: kernel.TableMain,
			Calicos: true}, true
	}
	for name, c := range map[string]struct {
		calicos func(netip.Addr) (node.Leads, bool)
		want    probe.Status
		saw     string
	}{
		"recorded": {calicos, probe.Fail, "leave by tailscale0 because of the rule \"5270: from all lookup 52\"; without it they would leave by eth0 through 10.88.0.12"},
		"recorded: no route now": {func(netip.Addr) (node.Leads, bool) { return node.Leads{}, true }, probe.Fail,
			"because of the rule \"5270: from all lookup 52\"; Calico has no route to this address, although the address is in one of Calico's blocks"},
		"near: no route of Calico": {noWay, probe.OK, "they do not change"},
	} {
		got, err := findDiversion(t.Context(), rules, nodes, pods, routeLookup{ask, c.calicos})
		if err != nil || got.Status != c.want || !strings.Contains(got.Saw, c.saw) {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
}

// TestRejection expects the name of a rule that rejects all of the pods' packets, not of one that rejects some.
func TestRejection(t *testing.T) {
	t.Parallel()
	local := probe.Target{Kind: probe.KindLocal, Name: "default/w", Addr: netip.MustParseAddr("10.244.0.1")}
	other := probe.Target{Kind: probe.KindPod, Name: "default/o", Addr: netip.MustParseAddr("10.244.1.1")}
	pods := netip.MustParsePrefix("10.244.0.0/24")
	for name, c := range map[string]struct {
		rule kernel.Rule
		want probe.Status
	}{
		"recorded":         {kernel.Rule{Priority: 500, From: pods, Rejects: true}, probe.Fail},
		"to those pods":    {kernel.Rule{From: pods, To: netip.MustParsePrefix("10.244.1.0/24"), Rejects: true}, probe.Fail},
		"near: to others":  {kernel.Rule{From: pods, To: netip.MustParsePrefix("10.9.0.0/16"), Rejects: true}, probe.OK},
		"near: one port":   {kernel.Rule{From: pods, Ports: [2]int{25, 25}, Rejects: true}, probe.OK},
		"near: marked":     {kernel.Rule{From: pods, Mark: 1, Rejects: true}, probe.OK},
		"near: all others": {kernel.Rule{From: pods, Not: true, Rejects: true}, probe.OK},
		"near: a table":    {kernel.Rule{From: pods, Table: 7}, probe.OK},
	} {
		ask := func(to, from netip.Addr, _ string) (node.Leads, bool) {
			if from == local.Addr {
				return node.Leads{}, false
			}
			return node.Leads{Device: "cali1", Table: kernel.TableMain, Calicos: true}, true
		}
		got, err := findDiversion(t.Context(), []kernel.Rule{c.rule}, nil, []probe.Target{local, other},
			routeLookup{ask, noWay})
		if err != nil || got.Status != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
