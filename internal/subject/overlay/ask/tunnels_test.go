package ask

import (
	"net/netip"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// TestJudgeTunnel covers the devices that the test machine's kernel cannot create: IPIP and WireGuard. TestRealOverlay
// covers VXLAN.
func TestJudgeTunnel(t *testing.T) {
	t.Parallel()
	own := func(addr string) probe.Target {
		return probe.Target{Kind: probe.KindTunnel, Name: "a", Addr: netip.MustParseAddr(addr),
			Attrs: map[string]string{probe.AttrOuter: "10.9.0.1", probe.AttrKey: "k"}}
	}
	dev := func(name, kind string, up bool, addrs ...string) *kernel.Link {
		d := &kernel.Link{Name: name, Kind: kind, MTU: 1440, Up: up}
		for _, a := range addrs {
			d.Addrs = append(d.Addrs, netip.MustParsePrefix(a))
		}
		return d
	}
	ipip, wg, wg6 := node.Encapsulations[0], node.Encapsulations[3], node.Encapsulations[4]
	for name, c := range map[string]struct {
		e    node.Encapsulation
		d    *kernel.Link
		addr string
		set  node.TunnelSettings
		want probe.Status
		saw  string
	}{
		"IPIP": {ipip, dev("tunl0", "ipip", true, "10.244.0.1/32"), "10.244.0.1", node.TunnelSettings{},
			probe.OK, "tunl0 is up with 10.244.0.1, MTU 1440"},
		"no tunl0": {ipip, nil, "10.244.0.1", node.TunnelSettings{}, probe.Fail,
			"interface tunl0 does not exist, but Calico uses IPIP (Always) and registered 10.244.0.1"},
		"tunl0 down": {ipip, dev("tunl0", "ipip", false, "10.244.0.1/32"), "10.244.0.1", node.TunnelSettings{},
			probe.Fail, "tunl0: it is down"},
		"tunl0 as made": {ipip, dev("tunl0", "ipip", false), "10.244.0.1", node.TunnelSettings{}, probe.Fail,
			"tunl0: it is down; it has no address, but Calico registered 10.244.0.1 for it"},
		"another address": {ipip, dev("tunl0", "ipip", true, "10.244.7.1/32", "fe80::1/64"), "10.244.0.1",
			node.TunnelSettings{}, probe.Fail, "it has 10.244.7.1, but Calico registered 10.244.0.1"},
		"another MTU": {ipip, dev("tunl0", "ipip", true, "10.244.0.1/32"), "10.244.0.1",
			node.TunnelSettings{MTU: 1480}, probe.Warn, "the MTU of tunl0 is 1440, but ipipMTU is 1480"},
		"WireGuard": {wg, dev("wireguard.cali", "wireguard", true, "10.244.0.2/32"), "10.244.0.2",
			node.TunnelSettings{MTU: 1440}, probe.OK, "peers not checked"},
		"WireGuard away": {wg, nil, "10.244.0.2", node.TunnelSettings{}, probe.Fail,
			"registered 10.244.0.2 for this node's end"},
		"WireGuard6 wrong": {wg6, dev("wg-v6.cali", "wireguard", true, "fd00::9/128"), "fd00::1", node.TunnelSettings{},
			probe.Fail, "it has fd00::9, but Calico registered fd00::1"},
	} {
		got := judgeTunnel(c.e, "Always", c.d, own(c.addr), c.set)
		t.Run(name, func(t *testing.T) { checktest.Want(t, []probe.Result{got}, "", c.want, c.saw) })
	}
}

// TestTunnelUse distinguishes used tunnels, unused tunnels, and unknown use.
func TestTunnelUse(t *testing.T) {
	t.Parallel()
	felix := func(on string) probe.Target {
		return probe.Target{Kind: probe.KindFelix, Attrs: map[string]string{"wireguardEnabled": on}}
	}
	four := func(ipip, vxlan string) probe.Target {
		return probe.Target{Kind: probe.KindPool, Name: "10.244.0.0/16",
			Attrs: map[string]string{probe.AttrIPIP: ipip, probe.AttrVXLAN: vxlan}}
	}
	six := probe.Target{Kind: probe.KindPool, Name: "fd00::/48", Attrs: map[string]string{probe.AttrVXLAN: "Always"}}
	for _, c := range []struct {
		device  string
		targets []probe.Target
		gap     string
		mode    string
		unknown bool
	}{
		{"tunl0", []probe.Target{four("Never", "Never"), four("CrossSubnet", "Never")}, "", "CrossSubnet", false},
		{"tunl0", []probe.Target{four("CrossSubnet", "Never"), four("Always", "Never")}, "", "Always", false},
		{"vxlan.calico", []probe.Target{six}, "", "", false},
		{"vxlan-v6.calico", []probe.Target{six}, "", "Always", false},
		{"vxlan.calico", []probe.Target{four("Never", "Always")}, "forbidden", "", true},
		{"vxlan.calico", nil, "", "", true},
		{"wireguard.cali", []probe.Target{felix("true")}, "", "Always", false},
		{"wireguard.cali", []probe.Target{felix("")}, "", "", false},
		{"wireguard.cali", []probe.Target{six}, "", "", true},
	} {
		p := &probe.Pass{Targets: c.targets, Gaps: map[string]string{probe.KindPool: c.gap}}
		for _, e := range node.Encapsulations {
			if e.Device != c.device {
				continue
			}
			if mode, err := e.Use(p); mode != c.mode || err != nil != c.unknown {
				t.Errorf("%+v: %q, %v", c, mode, err)
			}
		}
	}
	unread := &probe.Pass{Targets: []probe.Target{felix("")}, Gaps: map[string]string{probe.KindFelix: "forbidden"}}
	if mode, err := node.Encapsulations[3].Use(unread); err == nil {
		t.Errorf("Felix's settings could not be read: %q", mode)
	}
	got := checktest.Run(t, overlayTunnelsCheck, &probe.Host{}, four("Never", "Never"), felix(""))
	if len(got) != 1 || got[0].Status != probe.Skip {
		t.Errorf("no tunnel: %+v", got)
	}
}
