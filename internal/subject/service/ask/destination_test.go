package ask

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// TestFollowable expects every Service of the plan with its endpoints, and only this node's node ports.
func TestFollowable(t *testing.T) {
	t.Parallel()
	target := func(kind, name, addr string, port int) probe.Target {
		return probe.Target{Kind: kind, Name: name, Addr: netip.MustParseAddr(addr), Port: port}
	}
	service := target(probe.KindService, "d/web", "10.96.0.20", 80)
	service.Attrs = map[string]string{probe.AttrEndpoints: "10.244.1.2:8080,10.244.2.2:8080"}
	here := target(probe.KindNodePort, "d/web", "10.88.0.11", 30080)
	there := target(probe.KindNodePort, "d/web", "10.88.0.12", 30080)
	here.Node, there.Node = "a", "b"
	p := &probe.Pass{Host: &probe.Host{Node: "a"}, Targets: []probe.Target{
		target(probe.KindDatastore, "service", "10.96.0.1", 443), target(probe.KindDatastore, "endpoint", "10.88.0.1", 6443),
		target(probe.KindDNS, "service", "10.96.0.10", 53), target(probe.KindDNS, "endpoint", "10.244.1.3", 53),
		service, here, there, target(probe.KindDatastore, probe.NameConfigured, "10.88.0.99", 6443),
	}}
	var got []string
	for _, f := range servicesToTrace(p) {
		got = append(got, fmt.Sprint(f.name, " ", f.to, " ", f.network, " ", f.endpoints))
	}
	want := []string{
		"default/kubernetes 10.96.0.1:443 tcp [10.88.0.1:6443]",
		"DNS 10.96.0.10:53 udp [10.244.1.3:53]", "DNS 10.96.0.10:53 tcp [10.244.1.3:53]",
		"d/web 10.96.0.20:80 tcp [10.244.1.2:8080 10.244.2.2:8080]", "d/web 10.88.0.11:30080 tcp [10.244.1.2:8080 10.244.2.2:8080]",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCulprit expects the rule that leads to the connection's destination, and none that only may.
func TestCulprit(t *testing.T) {
	t.Parallel()
	type rules []kernel.PacketRule
	api := followed{network: "tcp", to: netip.MustParseAddrPort("10.96.0.1:443")}
	to := func(does, sends string, also ...func(*kernel.PacketRule)) kernel.PacketRule {
		r := kernel.PacketRule{Family: 4, Does: does, Proto: node.ProtoTCP, ToPorts: [2]int{443, 443}}
		r.Sends, _ = netip.ParseAddrPort(sends)
		for _, change := range also {
			change(&r)
		}
		return r
	}
	on := func(r *kernel.PacketRule) { r.Partly = true }
	kept := func(r *kernel.PacketRule) { r.Sends = netip.AddrPortFrom(netip.MustParseAddr("10.0.0.9"), 0) }
	here := func(port uint16) func(*kernel.PacketRule) {
		return func(r *kernel.PacketRule) { r.Sends = netip.AddrPortFrom(netip.Addr{}, port) }
	}
	anything := func(r *kernel.PacketRule) { r.Proto, r.ToPorts = 0, [2]int{} }
	from := func(r *kernel.PacketRule) { r.FromPorts = [2]int{68, 68} }
	udp := func(r *kernel.PacketRule) { r.Proto = node.ProtoUDP }
	other := to(kernel.DoesDNAT, "10.0.0.8:443")
	certain := to(kernel.DoesDNAT, "10.0.0.9:1")
	for name, c := range map[string]struct {
		rules rules
		sent  string
		own   bool
		want  int // -1 = none of them
	}{
		"its destination":       {rules{other, to(kernel.DoesDNAT, "10.0.0.9:10250")}, "10.0.0.9:10250", false, 1},
		"another destination":   {rules{other}, "10.0.0.9:10250", false, -1},
		"the port is kept":      {rules{other, to(kernel.DoesDNAT, "", kept)}, "10.0.0.9:443", false, 1},
		"without conditions":    {rules{to(kernel.DoesDNAT, "10.0.0.9:1", on), certain}, "10.0.0.9:1", false, 1},
		"on conditions":         {rules{other, to(kernel.DoesDNAT, "10.0.0.9:1", on)}, "10.0.0.9:1", false, 1},
		"one of several":        {rules{other, to(kernel.DoesDNAT, "")}, "10.0.0.9:1", false, 1},
		"anything to several":   {rules{to(kernel.DoesDNAT, "", anything)}, "10.0.0.9:1", false, -1},
		"to this node":          {rules{other, to(kernel.DoesRedirect, "", here(15001))}, "127.0.0.1:15001", true, 1},
		"to another node":       {rules{to(kernel.DoesRedirect, "", here(15001))}, "10.0.0.9:15001", false, -1},
		"to its own port":       {rules{to(kernel.DoesRedirect, "", here(0))}, "10.88.0.11:443", true, 0},
		"from a port":           {rules{to(kernel.DoesDNAT, "10.0.0.9:1", from)}, "10.0.0.9:1", false, -1},
		"TPROXY sends nowhere":  {rules{to(kernel.DoesTProxy, "10.0.0.9:1")}, "10.0.0.9:1", false, -1},
		"there are none of it":  {nil, "10.0.0.9:1", false, -1},
		"of another's protocol": {rules{to(kernel.DoesDNAT, "10.0.0.9:1", udp)}, "10.0.0.9:1", false, -1},
	} {
		got, known := redirectingRule(c.rules, api, netip.MustParseAddrPort(c.sent), c.own)
		if known != (c.want >= 0) || known && got != c.rules[c.want] {
			t.Errorf("%s: %v, %v", name, got, known)
		}
	}
}

// TestTenantsDestination expects a fault only for the cluster's own Services: others may belong to a tenant.
func TestTenantsDestination(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]probe.Status{probe.KindDatastore: probe.Fail, probe.KindDNS: probe.Fail,
		probe.KindService: probe.Warn, probe.KindNodePort: probe.Warn} {
		if got := (followed{kind: kind}).severity(); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}
