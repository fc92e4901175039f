//go:build e2e

package kernel

import (
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealState asks a kernel that has an IPsec policy, a rule without tracking and a queue that delays.
func TestRealState(t *testing.T) {
	if !nstest.Enter(t, `ip link add d0 type veth peer name d1
ip link set d0 up
ip xfrm policy add src 0.0.0.0/0 dst 10.244.0.0/16 dir out action block
nft add table ip raw
nft add chain ip raw PREROUTING { type filter hook prerouting priority raw ; policy accept ; }
nft add rule ip raw PREROUTING ip daddr 10.96.0.10 udp dport 53 notrack
nft add chain ip raw cali-PREROUTING
nft add rule ip raw PREROUTING jump cali-PREROUTING
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
	queues, err := Queues([]Link{{Name: "d0"}})
	if err != nil || len(queues) != 1 || len(queues[0].Kinds) != 1 || queues[0].XDP {
		t.Errorf("%+v, %v", queues, err)
	}
}
