package ask

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func TestMatchPolicies(t *testing.T) {
	t.Parallel()
	pods := flow{netip.MustParseAddr("10.244.1.2"), netip.MustParseAddr("10.244.2.3"), "from a to b", "out"}
	tunnel := kernel.XFRMPolicy{From: prefix("10.244.0.0/16"), To: prefix("10.244.0.0/16"), Direction: "out",
		Priority: 10, Required: true, Template: "esp tunnel"}
	with := func(change func(*kernel.XFRMPolicy)) kernel.XFRMPolicy { p := tunnel; change(&p); return p }
	bypass := with(func(p *kernel.XFRMPolicy) { p.Required, p.Priority = false, 1 })
	for name, c := range map[string]struct {
		policies []kernel.XFRMPolicy
		want     probe.Status
	}{
		"no association": {[]kernel.XFRMPolicy{tunnel}, probe.Warn},
		"associated":     {[]kernel.XFRMPolicy{with(func(p *kernel.XFRMPolicy) { p.Associated = true })}, probe.Info},
		"blocked":        {[]kernel.XFRMPolicy{with(func(p *kernel.XFRMPolicy) { p.Blocks = true })}, probe.Fail},
		"bypassed":       {[]kernel.XFRMPolicy{tunnel, bypass}, ""},
		"other way":      {[]kernel.XFRMPolicy{with(func(p *kernel.XFRMPolicy) { p.Direction = "in" })}, ""},
		"other range":    {[]kernel.XFRMPolicy{with(func(p *kernel.XFRMPolicy) { p.To = prefix("192.168.0.0/16") })}, ""},
		"other ports":    {[]kernel.XFRMPolicy{with(func(p *kernel.XFRMPolicy) { p.ToPort = 1701 })}, ""},
	} {
		got := matchPolicies(c.policies, []flow{pods, pods})
		if len(got) == 0 && c.want == "" {
			continue
		}
		if len(got) != 1 || got[0].Status != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

func TestMatchUntracked(t *testing.T) {
	t.Parallel()
	dns := []destination{
		{text: "service 10.96.0.10", kind: "service", to: netip.MustParseAddrPort("10.96.0.10:53"), out: "eth0",
			protos: []int{node.ProtoUDP, node.ProtoTCP}, from: []origin{{netip.MustParseAddr("10.244.9.9"), "eth0"}}},
		{text: "default/web 10.244.1.2", kind: "pod", to: netip.MustParseAddrPort("10.244.1.2:8080"), out: "cali1",
			protos: []int{node.ProtoTCP}},
	}
	at := here{pods: []netip.Addr{netip.MustParseAddr("10.244.1.2")}, podInterfaces: []string{"cali1"},
		uplinks: []string{"eth0"}}
	rule := kernel.PacketRule{Family: 4, Table: "raw", Chain: "PREROUTING", To: prefix("10.96.0.10/32"),
		Proto:   node.ProtoUDP,
		ToPorts: [2]int{53, 53}}
	with := func(change func(*kernel.PacketRule)) kernel.PacketRule { r := rule; change(&r); return r }
	for name, c := range map[string]struct {
		rule kernel.PacketRule
		want probe.Status
	}{
		"the Service":  {rule, probe.Fail},
		"all UDP":      {kernel.PacketRule{Proto: node.ProtoUDP}, probe.Fail},
		"from pods":    {kernel.PacketRule{From: prefix("10.244.0.0/16")}, probe.Fail},
		"from others":  {with(func(r *kernel.PacketRule) { r.From = prefix("192.168.0.0/16") }), ""},
		"another port": {with(func(r *kernel.PacketRule) { r.ToPorts = [2]int{123, 123} }), ""},
		"a pod":        {kernel.PacketRule{To: prefix("10.244.1.0/24"), Hook: "output"}, probe.Warn},
		"a pod's port": {kernel.PacketRule{To: prefix("10.244.1.0/24"), ToPorts: [2]int{8080, 8080},
			In: "eth0"}, probe.Warn},
		"IPv6":          {with(func(r *kernel.PacketRule) { r.Family, r.To = 6, netip.Prefix{} }), ""},
		"on conditions": {with(func(r *kernel.PacketRule) { r.Partly = true }), probe.Info},

		"of this node":            {kernel.PacketRule{Proto: node.ProtoTCP, Hook: "output", Out: "eth0"}, probe.Fail},
		"of this node, elsewhere": {kernel.PacketRule{Proto: node.ProtoTCP, Hook: "output", Out: "docker0"}, ""},
		"of pods":                 {kernel.PacketRule{Proto: node.ProtoTCP, Hook: "prerouting", In: "cali*"}, probe.Fail},
		"of containers":           {kernel.PacketRule{Proto: node.ProtoTCP, Hook: "prerouting", In: "docker*"}, ""},
		"replies":                 {kernel.PacketRule{Proto: node.ProtoUDP, Hook: "prerouting", In: "eth0"}, probe.Fail},
		"replies to pods": {kernel.PacketRule{Hook: "prerouting", In: "eth0",
			To: prefix("10.244.1.0/24")}, probe.Fail},
		"of a web server": {kernel.PacketRule{Proto: node.ProtoTCP, Hook: "prerouting", In: "eth0",
			ToPorts: [2]int{80, 80}}, ""},
		"of a far network": {kernel.PacketRule{Hook: "prerouting", In: "eth0", From: prefix("192.0.2.0/24"),
			To: prefix("10.244.1.0/24")}, ""},
	} {
		got := matchUntracked([]kernel.PacketRule{c.rule, c.rule}, dns, at)
		if len(got) == 0 && c.want == "" {
			continue
		}
		if len(got) != 1 || got[0].Status != c.want {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
}

func TestLongestPrefix(t *testing.T) {
	t.Parallel()
	routes := []kernel.Route{{To: prefix("10.0.0.0/8"), Type: kernel.Blackhole, Proto: 4},
		{To: prefix("10.88.0.12/32"), Type: kernel.Blackhole, Proto: 3}, {To: prefix("10.88.0.13/32"), Type: 7, Proto: 3}}
	got := longestPrefix(routes, netip.MustParseAddr("10.88.0.12"))
	if got == nil || got.To != routes[1].To {
		t.Errorf("%v, want the host route", got)
	}
	r := misdirection{route: *got, hits: []string{"node-b 10.88.0.12"}, kinds: []string{"node"},
		nodes: []string{"node-b"}}.result()
	if r.Status != probe.Fail || !strings.Contains(r.Saw, "blackhole 10.88.0.12") ||
		r.Facts.Str(route.FactRouteProto) != "boot" {
		t.Errorf("%v: the route and who made it are to be named", r)
	}
	for _, made := range []int{2, 12, 80} {
		if isSpecial(kernel.Route{To: routes[0].To, Type: kernel.Blackhole, Proto: made}) {
			t.Errorf("a route of %s is taken for others'", kernel.ProtocolName(made))
		}
	}
}

func TestBypassesLink(t *testing.T) {
	t.Parallel()
	links := []kernel.Link{{Name: "eth0", Up: true, Addrs: []netip.Prefix{prefix("10.88.0.11/24")}}}
	to := netip.MustParseAddr("10.88.0.12")
	by := func(device, gateway string) kernel.Route {
		h := kernel.Hop{Device: device}
		if gateway != "" {
			h.Gateway = netip.MustParseAddr(gateway)
		}
		return kernel.Route{To: prefix("10.88.0.12/32"), Proto: 4, Hops: []kernel.Hop{h}}
	}
	for name, c := range map[string]struct {
		way  kernel.Route
		want bool
	}{
		"gateway": {by("eth0", "10.88.0.1"), true}, "device": {by("wg0", ""), true}, "on the link": {by("eth0", ""), false},
	} {
		if got := bypassesLink(links, to, c.way, c.way); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	wide := by("eth0", "10.88.0.1")
	wide.To = prefix("0.0.0.0/0")
	if bypassesLink(links, to, wide, wide) {
		t.Error("the default route is nobody's detour")
	}
}
