//go:build e2e

package ask

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealPodTCP distinguishes connections that are accepted, refused, rejected, dropped, or have no route.
func TestRealPodTCP(t *testing.T) {
	if !nstest.Enter(t, checktest.TwoNodes+`
ip addr add 10.244.0.7/32 dev lo
ip netns exec router nft add table inet t
ip netns exec router nft add chain inet t f { type filter hook forward priority 0 ; }
ip netns exec router nft add rule inet t f ip daddr 10.244.1.3 tcp dport 8080 drop
ip netns exec router nft add rule inet t f ip daddr 10.244.1.4 tcp dport 8080 reject with icmp type admin-prohibited
ip netns exec router nft add rule inet t f ip daddr 10.244.1.4 tcp dport 8081 reject
ip netns exec router nft add rule inet t f ip6 daddr fd00:244::4 reject with icmpv6 type admin-prohibited
`) {
		return
	}
	checktest.ListenFar(t, "10.244.1.2:8080")
	checktest.ListenFar(t, "[fd00:244::2]:8080")
	pod := func(name, addr string, p int) probe.Target {
		return checktest.Port(checktest.At(probe.KindPod, name, addr), p)
	}
	got := checktest.Run(t, podTCPCheck, &probe.Host{}, pod("good", "10.244.1.2", 8080), pod("good6", "fd00:244::2", 8080),
		pod("filtered", "10.244.1.3", 8080),
		pod("rejected", "10.244.1.4", 8080), pod("rejected6", "fd00:244::4", 8080), pod("hole", "10.244.3.1", 80),
		pod("none", "10.244.4.1", 80),
		pod("prohibit", "10.244.5.1", 80), pod("nowhere", "172.18.0.1", 80), pod("self", "10.244.0.7", 80),
		pod("unrouted", "10.244.77.1", 80))
	r := checktest.Want(t, got, "good 10.244.1.2", probe.OK, "connected to 10.244.1.2:8080")
	if ms, _ := r.Facts.Num(probe.FactTook); ms <= 0 {
		t.Errorf("%+v", r.Facts)
	}
	checktest.Want(t, got, "good6 fd00:244::2", probe.OK, "connected to [fd00:244::2]:8080")
	reason := func(r probe.Result, want string) {
		t.Helper()
		if r.Facts.Str(probe.FactReason) != want {
			t.Errorf("%s: want reason %q: %+v", r.Target, want, r.Facts)
		}
	}
	reason(checktest.Want(t, got, "filtered 10.244.1.3", probe.Fail, "no answer from 10.244.1.3:8080 within "), "timeout")
	reason(checktest.Want(t, got, "rejected 10.244.1.4", probe.Fail, `"administratively prohibited" by ICMP from 10.9.0.9`),
		"rejected")
	reason(checktest.Want(t, got, "rejected6 fd00:244::4", probe.Fail, `"administratively prohibited" by ICMP from fd09::9`),
		"rejected")
	reason(checktest.Want(t, got, "hole 10.244.3.1", probe.Fail, "blackhole"), "blackhole")
	reason(checktest.Want(t, got, "none 10.244.4.1", probe.Fail, "host-unreachable"), "host-unreachable")
	reason(checktest.Want(t, got, "prohibit 10.244.5.1", probe.Fail, "prohibit"), "denied")
	reason(checktest.Want(t, got, "nowhere 172.18.0.1", probe.Fail, "no route"), "net-unreachable")
	reason(checktest.Want(t, got, "unrouted 10.244.77.1", probe.Fail, `"network unreachable" by ICMP from 10.9.0.9`),
		"net-unreachable")
	for _, r := range got {
		if strings.HasPrefix(r.Target, "self") {
			t.Errorf("it connected to itself: %+v", r)
		}
	}
	// Other ports of the same pods.
	got = checktest.Run(t, podTCPCheck, &probe.Host{}, pod("dead", "10.244.1.2", 8081), pod("rejected", "10.244.1.4",
		8081),
		pod("undeclared", "10.244.1.3", 0), pod("undeclared6", "fd00:244::2", 0))
	checktest.Want(t, got, "dead 10.244.1.2", probe.Info, "reachable in", "nothing listens on its port 8081")
	reason(checktest.Want(t, got, "rejected 10.244.1.4", probe.Fail, `"port unreachable" by ICMP from 10.9.0.9`), "rejected")
	checktest.Want(t, got, "undeclared 10.244.1.3", probe.OK, "reachable in", "reset from unused port")
	checktest.Want(t, got, "undeclared6 fd00:244::2", probe.OK, "reset from unused port")
	// The router drops all packets of this node.
	checktest.Do(t, "ip netns exec router nft insert rule inet t f drop")
	checktest.Want(t, checktest.Run(t, podTCPCheck, &probe.Host{}, pod("good", "10.244.1.2", 8080)), "good 10.244.1.2",
		probe.Fail, "no answer")
}

// TestRealLocalPods pings the other pods of this node too, but not the pod in which it runs.
func TestRealLocalPods(t *testing.T) {
	if !nstest.Enter(t, checktest.TwoNodes+`
ip netns add here
ip link add cali1 type veth peer name eth0 netns here
ip link set cali1 up
ip -n here addr add 10.244.0.7/32 dev eth0
ip -n here link set eth0 up
ip -n here route add 10.9.0.1 dev eth0
ip route add 10.244.0.7 dev cali1
`) {
		return
	}
	targets := []probe.Target{checktest.At(probe.KindLocal, "here", "10.244.0.7"),
		checktest.At(probe.KindPod, "far", "10.244.1.2"),
		checktest.At(probe.KindLocal, "self", netip.MustParseAddr("10.9.0.1").String())}
	ask := func() []probe.Result { return checktest.Run(t, podPingCheck, &probe.Host{}, targets...) }
	got := ask()
	checktest.Want(t, got, "here 10.244.0.7", probe.OK, "5 of 5")
	checktest.Want(t, got, "far 10.244.1.2", probe.OK, "5 of 5")
	checktest.Want(t, got, "", probe.Skip, "cannot enter")
	if len(got) != 3 {
		t.Errorf("%+v", got)
	}
	checktest.Do(t, "ip -n here link set eth0 down")
	checktest.Want(t, ask(), "here 10.244.0.7", probe.Fail, "none of 5")
}

// TestRealPodMTU lowers the MTU between two nodes. First the router reports that, then its ICMP errors are dropped.
func TestRealPodMTU(t *testing.T) {
	if !nstest.Enter(t, checktest.TwoNodes) {
		return
	}
	pods := []probe.Target{checktest.At(probe.KindPod, "far", "10.244.1.2"),
		checktest.At(probe.KindPod, "far6", "fd00:244::2")}
	ask := func() []probe.Result {
		t.Helper()
		return checktest.Run(t, podMTUCheck, &probe.Host{}, append(pods, checktest.At(probe.KindPod, "gone",
			"10.244.1.77"))...)
	}
	num := func(r probe.Result, key probe.Fact, want int) {
		t.Helper()
		if n, ok := r.Facts.Num(key); !ok || int(n) != want {
			t.Errorf("%s: %s is %v, want %d", r.Target, key, r.Facts[key], want)
		}
	}
	checktest.Settled(t, pods...)
	got := ask()
	num(checktest.Want(t, got, "far 10.244.1.2", probe.OK, "packets of 1500 bytes pass, the full MTU of eth0"), probe.FactPasses, 1500)
	num(checktest.Want(t, got, "far6 fd00:244::2", probe.OK, "packets of 1500 bytes pass"), probe.FactPromised, 1500)
	checktest.Want(t, got, "gone 10.244.1.77", probe.Unknown, "not even packets of 256 bytes")

	checktest.Do(t, "ip netns exec router nft add table ip scrub",
		"ip netns exec router nft add chain ip scrub pre { type filter hook prerouting priority -450 ; }",
		"ip netns exec router nft add rule ip scrub pre ip frag-off & 0x3fff != 0 drop")
	got = ask()
	lost := checktest.Want(t, got, "far 10.244.1.2", probe.Info, "packets of 1500 bytes pass", "larger pings, in fragments, are lost")
	if lost.Facts.Str(probe.FactReason) != probe.ReasonFragments {
		t.Errorf("%+v", lost)
	}
	checktest.Want(t, got, "far6 fd00:244::2", probe.OK, "packets of 1500 bytes pass")
	checktest.Do(t, "ip netns exec router nft delete table ip scrub")

	// The router reports the smaller MTU.
	checktest.Do(t, "ip -n router link set far mtu 1400", "ip -n far link set eth0 mtu 1400")
	for range 2 { // the second time, the kernel has cached the MTU
		got = ask()
		num(checktest.Want(t, got, "far 10.244.1.2", probe.Info,
			"a router on the path reports a path MTU of 1400, and packets of that size pass; the MTU of the sender's eth0 is 1500"), node.FactReportedMTU, 1400)
		num(checktest.Want(t, got, "far6 fd00:244::2", probe.Info, "a path MTU of 1400, and packets of that size pass"), probe.FactPasses, 1400)
	}
	// The router's ICMP errors are dropped: a black hole.
	checktest.Do(t, "ip netns exec router nft add table inet t",
		"ip netns exec router nft add chain inet t out { type filter hook output priority 0 ; }",
		"ip netns exec router nft add rule inet t out icmp type destination-unreachable drop",
		"ip netns exec router nft add rule inet t out icmpv6 type packet-too-big drop")
	got = ask()
	r := checktest.Want(t, got, "far 10.244.1.2", probe.Fail,
		"packets of 1400 bytes pass, but packets of 1401 are lost without an ICMP error; the MTU of the sender's eth0 is 1500")
	num(r, probe.FactPasses, 1400)
	num(r, node.FactSmallest, 1401)
	checktest.Want(t, got, "far6 fd00:244::2", probe.Fail, "packets of 1400 bytes pass, but packets of 1401 are lost")
	// A route or an interface with that MTU is correct.
	checktest.Do(t, "ip route replace 10.244.0.0/16 via 10.9.0.9 mtu 1400",
		"ip -6 route replace fd00:244::/64 via fd09::9 mtu 1400")
	got = ask()
	checktest.Want(t, got, "far 10.244.1.2", probe.OK, "packets of 1400 bytes pass")
	checktest.Want(t, got, "far6 fd00:244::2", probe.OK, "packets of 1400 bytes pass")
	checktest.Do(t, "ip route replace 10.244.0.0/16 via 10.9.0.9", "ip link set eth0 mtu 9000")
	r = checktest.Want(t, ask(), "far 10.244.1.2", probe.Fail, "packets of 1400 bytes pass", "eth0 is 9000")
	num(r, probe.FactPromised, 9000)
	// If packets of every size are lost, the MTU is not the reason.
	checktest.Do(t, "ip link set eth0 mtu 1400",
		"ip netns exec router nft add chain inet t f { type filter hook forward priority 0 ; }",
		"ip netns exec router nft add rule inet t f drop")
	checktest.Want(t, ask(), "far 10.244.1.2", probe.Unknown, "not even packets of 256 bytes")
}
