package ask

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// TestShutOut expects a rule only where it certainly drops what a node sends.
func TestShutOut(t *testing.T) {
	t.Parallel()
	bgp := arrival{proto: "tcp", port: 179}
	const allow = "iif lo accept; ct state established,related accept; icmp accept; tcp dport 22,6443,30000-32767 accept"
	for name, c := range map[string]struct {
		arrival
		rules, other string // of INPUT, and of a chain OTHER
		drops        bool   // INPUT's policy
		want         string
	}{
		"an allowlist":           {bgp, allow + "; drop", "", false, "INPUT: drop"},
		"by policy":              {bgp, allow, "", true, "INPUT: policy drop"},
		"in a chain of its own":  {bgp, "jump OTHER", allow + "; reject", false, "OTHER: reject"},
		"another port":           {arrival{proto: "tcp", port: 31000}, allow + "; drop", "", false, ""},
		"another protocol":       {arrival{proto: "udp", port: 4789}, allow + "; drop", "", false, "INPUT: drop"},
		"IPIP":                   {arrival{proto: "ipip"}, "tcp accept; proto 17,47 accept; drop", "", false, "INPUT: drop"},
		"IPIP by its number":     {arrival{proto: "ipip"}, "proto 4 accept; drop", "", false, ""},
		"the port itself":        {bgp, "tcp dport 179 drop", "", false, "INPUT: tcp dport 179 drop"},
		"from another address":   {bgp, "saddr 10.9.0.0/16 tcp dport 179 drop", "", false, ""},
		"from a range":           {bgp, "saddr 10.88.0.10-10.88.0.12 drop", "", false, "INPUT: saddr 10.88.0.10-10.88.0.12 drop"},
		"all but a range":        {bgp, "not saddr 10.88.0.10-10.88.0.12 drop", "", false, ""},
		"accepted before":        {bgp, "saddr 10.88.0.0/24 accept; drop", "", false, ""},
		"perhaps accepted":       {bgp, "match set accept; drop", "", false, ""},
		"perhaps dropped":        {bgp, "tcp dport 179 limit drop", "", false, ""},
		"perhaps back":           {bgp, "match set return", "", true, ""},
		"of a connection":        {bgp, "ct state invalid drop", "", false, ""},
		"the first packet":       {bgp, "tcp syn dport 179 drop", "", false, "INPUT: tcp syn dport 179 drop"},
		"other flags":            {bgp, "tcp match flags drop", "", false, ""},
		"by another interface":   {bgp, "iif eth1 drop; not iif eth0 drop", "", false, ""},
		"logged first":           {bgp, "log; iif eth+ drop", "", false, "INPUT: iif eth+ drop"},
		"to another host":        {bgp, "not daddrtype local drop", "", false, ""},
		"a map to verdicts":      {bgp, "ct state @__map0 vmap", "", true, ""},
		"as its elements":        {bgp, "ct state established accept; ct state invalid drop", "", true, "INPUT: policy drop"},
		"a chain that is hidden": {bgp, "jump ELSEWHERE", "", true, ""},
		"through goto":           {bgp, "goto OTHER; drop", "accept", false, ""},
		"marked and accepted":    {bgp, "set mark accept; drop", "", false, ""},
		"an unknown element":     {bgp, "iif @? accept; ct state @? accept; drop", "", false, ""},
		"from a low port":        {arrival{proto: "ipip"}, "sport 123 accept; reject", "", false, "INPUT: reject"},
		"from a free port":       {bgp, "tcp sport 123,1000-1024 accept; drop", "", false, ""},
		"from not a low port":    {bgp, "tcp not sport 1-1023 accept; drop", "", false, ""},
		"no rule":                {bgp, "", "", false, ""},
	} {
		split := func(s string) []string {
			return slices.DeleteFunc(strings.Split(s, "; "), func(s string) bool { return s == "" })
		}
		in := kernel.Wall{Family: "ip", Table: "filter", Name: "INPUT", Hook: "input", Policy: "accept",
			Rules: split(c.rules)}
		if c.drops {
			in.Policy = "drop"
		}
		other := kernel.Wall{Family: "ip", Table: "filter", Name: "OTHER", Rules: split(c.other)}
		from := sender{"node-b", flow{from: netip.MustParseAddr("10.88.0.12"), to: netip.MustParseAddr("10.88.0.11"),
			in: "eth0", here: true, opens: true}}
		got := ""
		for _, r := range shutOut(c.arrival, []sender{from}, []kernel.Wall{in, other}) {
			got = strings.TrimPrefix(r.Facts.Str(firewall.FactInputRule), "iptables-nft filter ")
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestShutOutSome names the nodes that an allowlist lacks.
func TestShutOutSome(t *testing.T) {
	t.Parallel()
	in := kernel.Wall{Family: "inet", Table: "host", Name: "input", Hook: "input", Policy: "drop",
		Rules: []string{"saddr 10.88.0.11-10.88.0.12 accept"}}
	var all []sender
	for i, node := range []string{"node-a", "node-b", "node-c", "node-d", "node-e"} {
		from := netip.AddrFrom4([4]byte{10, 88, 0, byte(11 + i)})
		all = append(all, sender{node, flow{from: from, to: netip.MustParseAddr("10.88.0.99"), in: "eth0", here: true,
			opens: true}})
	}
	got := shutOut(arrival{proto: "tcp", port: 10250}, all, []kernel.Wall{in})
	const want = "a foreign rule drops packets to TCP port 10250 from node-c, node-d, node-e: nftables inet host input: policy drop"
	if len(got) != 1 || got[0].Saw != want || got[0].Target != "TCP port 10250 from other nodes" {
		t.Errorf("%+v", got)
	}
}
