//go:build e2e

package kernel

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealState queries a kernel with an IPsec policy, a notrack rule and a queue that delays packets.
func TestRealState(t *testing.T) {
	if !nstest.Enter(t, `ip link add d0 type veth peer name d1
ip link set d0 up
ip xfrm policy add src 0.0.0.0/0 dst 10.244.0.0/16 dir out action block
nft add table ip raw
nft add chain ip raw PREROUTING { type filter hook prerouting priority raw ; policy accept ; }
nft add rule ip raw PREROUTING ip daddr 10.96.0.10 udp dport 53 notrack
nft add chain ip raw cali-PREROUTING
nft add rule ip raw PREROUTING jump cali-PREROUTING
nft add table ip agent
nft add chain ip agent post { type nat hook postrouting priority srcnat ; policy accept ; }
nft add rule ip agent post fib daddr type != local masquerade
iptables-nft -t nat -A POSTROUTING -m addrtype ! --dst-type LOCAL -j MASQUERADE
iptables-legacy -t nat -A POSTROUTING -m addrtype --src-type LOCAL -j RETURN
iptables-legacy -t nat -A POSTROUTING -m addrtype --dst-type BROADCAST -j RETURN
`) {
		return
	}
	policies, err := XFRMPolicies()
	if err != nil || len(policies) != 1 || policies[0].String() != "out src 0.0.0.0/0 dst 10.244.0.0/16 block" {
		t.Errorf("%v, %v", policies, err)
	}
	untracked, err := Untracked(&probe.Host{Proc: "/proc"})
	if err != nil || len(untracked) != 1 ||
		untracked[0].String() != "raw PREROUTING: to 10.96.0.10/32 udp port 53 notrack" {
		t.Errorf("%v, %v", untracked, err)
	}
	ours := func(_, chain string) bool { return !strings.HasPrefix(chain, "cali-") }
	walls, err := Walls(&probe.Host{Proc: "/proc"}, ours)
	at := slices.IndexFunc(walls, func(w Wall) bool { return w.Name == "PREROUTING" })
	if err != nil || at < 0 || walls[at].Hook != "prerouting" || walls[at].Policy != "accept" ||
		!slices.Equal(walls[at].Rules, []string{"daddr 10.96.0.10 udp dport 53 notrack"}) {
		t.Errorf("%+v, %v", walls, err)
	}
	kinds := map[string][]string{}
	for _, w := range walls {
		kinds[fmt.Sprint(w.Name, " ", w.Legacy)] = w.Rules
	}
	for chain, want := range map[string][]string{"post false": {"not daddrtype local masquerade"},
		"POSTROUTING false": {"not daddrtype local masquerade"},
		"POSTROUTING true":  {"saddrtype local return", "match addrtype return"}} {
		if !slices.Equal(kinds[chain], want) {
			t.Errorf("%s: %q, want %q", chain, kinds[chain], want)
		}
	}
	queues, err := Queues([]Link{{Name: "d0"}})
	if err != nil || len(queues) != 1 || len(queues[0].Kinds) != 1 || queues[0].XDP {
		t.Errorf("%+v, %v", queues, err)
	}
}
