//go:build e2e

package ask

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealPacketDrops drops packets to another node and to its pod in different places. It expects the place, with the
// facts that causes read.
func TestRealPacketDrops(t *testing.T) {
	if !nstest.Enter(t, checktest.TwoNodes) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	node, other := checktest.At(probe.KindNode, "node-b", "10.9.1.2"), checktest.At(probe.KindNode, "node-c", "10.9.0.9")
	pod := checktest.At(probe.KindPod, "default/web", "10.244.1.2")
	pod.Node = "node-b"
	checktest.Settled(t, node, other, pod)
	ask := func() []probe.Result { return checktest.Run(t, packetDropsCheck, h, node, other, pod) }
	checktest.Want(t, ask(), "", probe.OK, "no packets lost: 3 addresses answer the node; no pod to test from")
	do := func(script string) {
		t.Helper()
		for line := range strings.Lines(script) {
			if out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", line, err, out)
			}
		}
	}
	for _, c := range []struct {
		name, break_, heal, target string
		status                     probe.Status
		saw                        string
		facts                      probe.Facts
	}{
		{"a rule", "iptables-legacy -A INPUT -s 10.9.1.2 -m comment --comment hardening -j DROP", "iptables-legacy -F INPUT",
			"node-b 10.9.1.2", probe.Fail,
			"pings are lost: legacy iptables, table ip filter, chain INPUT, rule 1: saddr 10.9.1.2 drop (\"hardening\")",
			probe.Facts{firewall.FactPlaceKind: firewall.PlaceRule, probe.FactPlaceIn: probe.InNode,
				firewall.FactRuleChain: "INPUT", firewall.FactRuleTable: "ip filter",
				firewall.FactRuleHook: "input", probe.FactNode: "node-b"}},
		{"rp_filter", "ip link add eth1 type veth peer name near1 netns router\nip addr add 10.9.2.1/24 dev eth1\n" +
			"ip -n router addr add 10.9.2.9/24 dev near1\nip link set eth1 up\nip -n router link set near1 up\n" +
			"ip route add 10.9.1.2 via 10.9.2.9 src 10.9.0.1\nsysctl -qw net.ipv4.conf.all.rp_filter=1", "ip route del 10.9.1.2",
			"node-b 10.9.1.2", probe.Fail, "rp_filter", probe.Facts{firewall.FactPlaceKind: firewall.PlaceRPFilter}},
		{"a queue", "tc qdisc add dev eth0 root handle 1: tbf rate 8kbit burst 10 limit 10", "tc qdisc del dev eth0 root",
			"node-b 10.9.1.2", probe.Fail, "a filter drops them (tc): eth0 tbf 1:0", probe.Facts{firewall.FactPlaceKind: "queue"}},
		{"beyond", "ip netns exec router iptables-nft -A FORWARD -d 10.244.1.2 -j DROP", "ip netns exec router iptables-nft -F FORWARD",
			"default/web 10.244.1.2", probe.Info, "they are lost beyond this node", probe.Facts{factBeyond: true}},
		{"a policy", felixPolicy, "nft delete table ip calico", "default/web 10.244.1.2", probe.Info,
			"Calico's NetworkPolicy default/deny ingress drops them",
			probe.Facts{firewall.FactPlaceKind: firewall.PlacePolicy, probe.FactPolicy: "NetworkPolicy default/deny ingress"}},
	} {
		if testing.Short() && c.name != "a rule" && c.name != "a policy" {
			continue
		}
		do(c.break_)
		got := ask()
		r := checktest.Want(t, got, c.target, c.status, c.saw)
		for key, value := range c.facts {
			if r.Facts[key] != value {
				t.Errorf("%s: %s is %v, want %v", c.name, key, r.Facts[key], value)
			}
		}
		do(c.heal)
	}
}

// TestRealPacketDropsOfBGP expects the rule that drops connections to a BGP peer without a session.
func TestRealPacketDropsOfBGP(t *testing.T) {
	if !nstest.Enter(t, checktest.TwoNodes) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	node := checktest.At(probe.KindNode, "node-b", "10.9.1.2")
	session := checktest.At(probe.KindSession, "node-b", "10.9.1.2")
	session.Port = 179
	checktest.Settled(t, node)
	drop := exec.CommandContext(t.Context(), "sh", "-c", "iptables-legacy -A OUTPUT -p tcp --dport 179 -j DROP")
	if out, err := drop.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	checktest.Want(t, checktest.Run(t, packetDropsCheck, h, node, session), "node-b 10.9.1.2", probe.Fail,
		"connections to TCP port 179 are lost: legacy iptables, table ip filter, chain OUTPUT, rule 1")
	session.Attrs = map[string]string{probe.AttrPassword: "true"}
	checktest.Want(t, checktest.Run(t, packetDropsCheck, h, node, session), "", probe.OK, "no packets lost")
}

// TestRealPacketDropsCut expects no "no packets lost" from a check that times out before answers can arrive.
func TestRealPacketDropsCut(t *testing.T) {
	if !nstest.Enter(t, checktest.TwoNodes) {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var got []probe.Result
	packetDropsCheck.Run(ctx, &probe.Pass{Host: &probe.Host{Root: "/", Proc: "/proc"},
		Report:  func(r probe.Result) { got = append(got, r) },
		Targets: []probe.Target{checktest.At(probe.KindNode, "node-b", "10.9.1.77")}})
	if checktest.Want(t, got, "", probe.Unknown, "interrupted before an answer arrived"); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// felixPolicy is a policy as Felix v3.32 writes it.
const felixPolicy = `nft 'table ip calico { chain filter-cali-pi-default.deny { counter meta mark set 1 comment "cali:abcdefghijklmnop; NetworkPolicy default/deny ingress"; meta mark 1 ip daddr 10.244.1.2 counter drop comment "cali:bbcdefghijklmnop;"; }; chain o { type filter hook output priority 0; jump filter-cali-pi-default.deny; }; }'`
