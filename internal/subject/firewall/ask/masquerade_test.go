package ask

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// TestFlowThroughNAT finds the rules that certainly masquerade traffic to another node's pod, and no others.
func TestFlowThroughNAT(t *testing.T) {
	t.Parallel()
	const mask = "saddr 10.244.0.0/16 masquerade"
	four := flow{from: netip.MustParseAddr("10.244.7.5"), to: netip.MustParseAddr("10.244.9.9"), out: "eth0"}
	six := flow{from: netip.MustParseAddr("fd00:244::5"), to: netip.MustParseAddr("fd00:244::9:9"), out: "eth0"}
	for _, c := range []struct {
		flow  flow
		rules string // of POSTROUTING, and behind "|" of the chain OTHER
		want  string
	}{
		{four, "saddr 10.244.0.0/16 oif eth0 masquerade", "POSTROUTING: saddr 10.244.0.0/16 oif eth0 masquerade"},
		{four, "oif eth0 masquerade", "POSTROUTING: oif eth0 masquerade"},
		{six, "saddr fd00:244::/64 not oif lo masquerade", "POSTROUTING: saddr fd00:244::/64 not oif lo masquerade"},
		{four, "saddr 10.244.0.0/16 snat", "POSTROUTING: saddr 10.244.0.0/16 snat"},
		{four, "saddr 10.244.7.5 masquerade", "POSTROUTING: saddr 10.244.7.5 masquerade"},
		{four, "saddr 10.244.0.0/16 not daddr 192.168.0.0/16 masquerade", "not daddr 192.168.0.0/16"},
		{four, "saddr 10.244.0.0/16 not daddr 10.244.0.0/16 masquerade", ""},
		{four, "saddr 10.244.8.0/24 masquerade", ""}, // other pods
		{four, "saddr 172.17.0.0/16 not oif docker0 masquerade", ""},
		{four, "saddr 10.244.0.0/16 not oif eth0 masquerade", ""},
		{four, "oif tailscale0 masquerade", ""},
		{four, "saddr 10.244.0.0/16 match set masquerade", ""},
		{four, "mark 0x4000 masquerade", ""},
		{six, mask, ""},
		{four, "saddr 10.244.0.0/16 return", ""},
		{four, "not", ""}, {four, "saddr", ""}, {four, "", ""},
		// rules before it
		{four, "saddr 172.17.0.0/16 masquerade; " + mask, mask},
		{four, "match set accept; " + mask, ""},
		{four, "mark 0x4000/0x4000 return; " + mask, mask}, {four, "mark 0x1 return; " + mask, ""},
		{four, "oif eth+ return; " + mask, ""}, {four, "not oif eth+ return; " + mask, mask},
		{four, "saddr 10.244.0.0/24 daddr 10.244.0.0/16 return; " + mask, mask}, // as flannel has it for other nodes
		{four, "saddr 10.244.7.0/24 return; " + mask, ""},
		{four, "jump OTHER | saddr 10.244.0.0/24 return; " + mask, "OTHER: " + mask},
		{four, "jump OTHER; " + mask + " | saddr 10.244.7.0/24 return; " + mask, "POSTROUTING: " + mask},
		{four, "goto OTHER; " + mask + " | daddr 10.244.0.0/16 return", ""},
		{four, "jump OTHER; " + mask + " | match set return", ""},
		{four, "match set jump OTHER; " + mask + " | " + mask, "POSTROUTING: " + mask},
		{four, "not daddrtype local jump OTHER | daddr 169.254.0.0/16 return; masquerade", "OTHER: masquerade"}, // ip-masq-agent
		{four, "daddrtype local jump OTHER | masquerade", ""}, {four, "saddrtype local masquerade", ""},
		{four, "jump OTHER | jump OTHER", ""}, // no end
		{four, "jump AWAY; " + mask, ""},
	} {
		rules, other, _ := strings.Cut(c.rules, " | ")
		all := []kernel.Wall{{Table: "nat", Name: "POSTROUTING", Hook: "postrouting", Rules: strings.Split(rules, "; ")},
			{Table: "nat", Name: "OTHER", Rules: strings.Split(other, "; ")}}
		got, _ := c.flow.certain(all, all[0], 0, "masquerade", "snat", "nat")
		if got == "" != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q: %q, want %q", c.rules, got, c.want)
		}
	}
}

// TestDeniedByLabels expects a warning only if a policy allows pods by their labels.
func TestDeniedByLabels(t *testing.T) {
	felix := func(attrs map[string]string) *probe.Pass {
		return &probe.Pass{Targets: []probe.Target{{Kind: probe.KindFelix, Attrs: attrs}}}
	}
	rule := probe.Found(probe.Info, "a rule")
	if r := deniedByLabels(felix(nil), rule); r.Status != probe.Info {
		t.Errorf("without such a policy: %v", r)
	}
	with := felix(map[string]string{probe.AttrByLabels: "NetworkPolicy shop/allow"})
	if r := deniedByLabels(with, rule); r.Status != probe.Warn ||
		r.Facts.Str(firewall.FactByLabels) != "NetworkPolicy shop/allow" {
		t.Errorf("with one: %v", r)
	}
}
