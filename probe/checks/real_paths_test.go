//go:build e2e

package checks

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// Two nodes, and between them a router: the test's own namespace is one node, the
// pods of the other are addresses of the namespace far.
const twoNodes = `
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir /run/netns
ip netns add router
ip netns add far
ip link set lo up
ip link add eth0 type veth peer name near netns router
ip -n router link add far type veth peer name eth0 netns far
ip addr add 10.9.0.1/24 dev eth0
ip addr add fd09::1/64 dev eth0 nodad
ip link set eth0 up
ip -n router addr add 10.9.0.9/24 dev near
ip -n router addr add fd09::9/64 dev near nodad
ip -n router link set near up
ip -n router addr add 10.9.1.9/24 dev far
ip -n router addr add fd09:1::9/64 dev far nodad
ip -n router link set far up
ip netns exec router sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
ip -n far addr add 10.9.1.2/24 dev eth0
ip -n far addr add fd09:1::2/64 dev eth0 nodad
ip -n far link set lo up
ip -n far link set eth0 up
ip -n far addr add 10.244.1.2/32 dev eth0
ip -n far addr add 10.244.1.3/32 dev eth0
ip -n far addr add 10.244.1.4/32 dev eth0
ip -n far addr add fd00:244::2/128 dev eth0 nodad
ip -n far addr add fd00:244::4/128 dev eth0 nodad
ip -n far route add default via 10.9.1.9
ip -n far -6 route add default via fd09:1::9
ip -n router route add 10.244.1.0/26 via 10.9.1.2
ip -n router -6 route add fd00:244::/64 via fd09:1::2
ip route add 10.244.0.0/16 via 10.9.0.9
ip route add 10.9.1.0/24 via 10.9.0.9
ip -6 route add fd00:244::/64 via fd09::9
ip route add blackhole 10.244.3.0/26
ip route add unreachable 10.244.4.0/26
ip route add prohibit 10.244.5.0/26
`

// in runs f on a thread inside a named network namespace. A socket opened there
// stays there.
func in(t *testing.T, name string, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never back: the thread ends with its goroutine
		ns, err := netns.GetFromName(name)
		if err == nil {
			err = netns.Set(ns)
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("in %s: %v", name, err)
	}
}

// listenFar takes TCP connections on the other node.
func listenFar(t *testing.T, addr string) {
	t.Helper()
	in(t, "far", func() error {
		l, err := net.Listen("tcp", addr)
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
}

// settled waits until pods answer: IPv6 takes its time after a link is up.
func settled(t *testing.T, pods ...probe.Target) {
	t.Helper()
	for _, pod := range pods {
		eventually(t, func() bool {
			conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(pod.Addr, 1).String(), time.Second)
			if err == nil {
				_ = conn.Close()
			}
			return err == nil || errors.Is(err, syscall.ECONNREFUSED)
		})
	}
}

func port(t probe.Target, port int) probe.Target { t.Port = port; return t }

// TestRealPodTCP wants every way a packet can end told apart.
func TestRealPodTCP(t *testing.T) {
	if !nstest.Enter(t, twoNodes+`
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
	listenFar(t, "10.244.1.2:8080")
	listenFar(t, "[fd00:244::2]:8080")
	pod := func(name, addr string, p int) probe.Target { return port(at(probe.KindPod, name, addr), p) }
	got := run(t, PodTCP, &probe.Host{}, pod("good", "10.244.1.2", 8080), pod("good6", "fd00:244::2", 8080),
		pod("filtered", "10.244.1.3", 8080),
		pod("rejected", "10.244.1.4", 8080), pod("rejected6", "fd00:244::4", 8080), pod("hole", "10.244.3.1", 80),
		pod("none", "10.244.4.1", 80),
		pod("prohibit", "10.244.5.1", 80), pod("nowhere", "172.18.0.1", 80), pod("self", "10.244.0.7", 80),
		pod("unrouted", "10.244.77.1", 80))
	r := want(t, got, "good 10.244.1.2", probe.OK, "connected to 10.244.1.2:8080")
	if ms, _ := r.Facts.Num(FactTook); ms <= 0 {
		t.Errorf("%+v", r.Facts)
	}
	want(t, got, "good6 fd00:244::2", probe.OK, "connected to [fd00:244::2]:8080")
	reason := func(r probe.Result, want string) {
		t.Helper()
		if r.Facts.Str(probe.FactReason) != want {
			t.Errorf("%s: want reason %q: %+v", r.Target, want, r.Facts)
		}
	}
	reason(want(t, got, "filtered 10.244.1.3", probe.Fail, "no answer from 10.244.1.3:8080 within "), "timeout")
	reason(want(t, got, "rejected 10.244.1.4", probe.Fail, `"administratively prohibited" by ICMP from 10.9.0.9`),
		"rejected")
	reason(want(t, got, "rejected6 fd00:244::4", probe.Fail, `"administratively prohibited" by ICMP from fd09::9`),
		"rejected")
	reason(want(t, got, "hole 10.244.3.1", probe.Fail, "blackhole"), "blackhole")
	reason(want(t, got, "none 10.244.4.1", probe.Fail, "host-unreachable"), "host-unreachable")
	reason(want(t, got, "prohibit 10.244.5.1", probe.Fail, "prohibit"), "denied")
	reason(want(t, got, "nowhere 172.18.0.1", probe.Fail, "no route"), "net-unreachable")
	reason(want(t, got, "unrouted 10.244.77.1", probe.Fail, `"network unreachable" by ICMP from 10.9.0.9`),
		"net-unreachable")
	for _, r := range got {
		if strings.HasPrefix(r.Target, "self") {
			t.Errorf("it asked itself: %+v", r)
		}
	}
	// Once more for the other ports of the same pods.
	got = run(t, PodTCP, &probe.Host{}, pod("dead", "10.244.1.2", 8081), pod("rejected", "10.244.1.4", 8081),
		pod("undeclared", "10.244.1.3", 0), pod("undeclared6", "fd00:244::2", 0))
	want(t, got, "dead 10.244.1.2", probe.Info, "reachable in", "nothing listens on its port 8081")
	reason(want(t, got, "rejected 10.244.1.4", probe.Fail, `"port unreachable" by ICMP from 10.9.0.9`), "rejected")
	want(t, got, "undeclared 10.244.1.3", probe.OK, "reachable in", "reset from unused port")
	want(t, got, "undeclared6 fd00:244::2", probe.OK, "reset from unused port")
	// The router falls silent for this node.
	do(t, "ip netns exec router nft insert rule inet t f drop")
	want(t, run(t, PodTCP, &probe.Host{}, pod("good", "10.244.1.2", 8080)), "good 10.244.1.2", probe.Fail, "no answer")
}

// TestRealRouteSpecial makes each type of route that takes a pod's packets, one of them as a cloud's guest agent does.
func TestRealRouteSpecial(t *testing.T) {
	if !nstest.Enter(t, twoNodes+"ip route add local 10.244.1.0/26 dev eth0 table local proto 66\n") {
		return
	}
	pod := func(name, addr string) probe.Target { return at(probe.KindPod, name, addr) }
	got := run(t, RouteSpecial, &probe.Host{}, pod("kept", "10.244.1.2"), pod("hole", "10.244.3.1"),
		pod("none", "10.244.4.1"), pod("prohibit", "10.244.5.1"), pod("well", "10.244.77.1"))
	want(t, got, "local 10.244.1.0/26", probe.Fail, "(made by 66) delivers to this node itself what is for kept 10.244.1.2")
	want(t, got, "blackhole 10.244.3.0/26", probe.Fail, "drops what is for hole 10.244.3.1")
	want(t, got, "unreachable 10.244.4.0/26", probe.Fail, "drops what is for none")
	want(t, got, "prohibit 10.244.5.0/26", probe.Fail, "drops what is for prohibit")
	if len(got) != 4 {
		t.Errorf("%d results: %v", len(got), got)
	}
}

// TestRealServices makes of a cluster IP and of node ports what kube-proxy does,
// and then what it does wrong.
func TestRealServices(t *testing.T) {
	if !nstest.Enter(t, twoNodes+`
ip route add 10.96.0.0/16 via 10.9.0.9
nft add table ip s
nft add chain ip s nat { type nat hook output priority -100 ; }
nft add rule ip s nat ip daddr 10.96.0.10 tcp dport 80 dnat to 10.244.1.2:8080
nft add rule ip s nat ip daddr 10.96.0.11 tcp dport 80 dnat to 10.244.1.3:8080
nft add rule ip s nat ip daddr 10.9.0.1 tcp dport 30080 dnat to 10.244.1.2:8080
nft add chain ip s out { type filter hook output priority 0 ; }
nft add rule ip s out ip daddr 10.96.0.12 reject
ip netns exec router nft add table ip t
ip netns exec router nft add chain ip t f { type filter hook forward priority 0 ; }
ip netns exec router nft add rule ip t f ip daddr { 10.244.1.3, 10.244.1.4 } tcp dport { 8080, 30080 } drop
`) {
		return
	}
	listenFar(t, "10.244.1.2:8080")
	listenFar(t, "10.9.1.2:30080")
	service := func(name, addr string) probe.Target { return port(at(probe.KindService, name, addr), 80) }
	api := port(at(probe.KindDatastore, "service", "10.96.0.1"), 443)
	endpoint := port(at(probe.KindDatastore, "endpoint", "10.96.0.1"), 6443)
	got := run(t, ServiceClusterIP, &probe.Host{}, api, endpoint, service("d/good", "10.96.0.10"),
		service("d/lost", "10.96.0.11"), service("d/empty", "10.96.0.12"), service("d/unrouted", "10.97.0.1"))
	want(t, got, "default/kubernetes 10.96.0.1:443", probe.Fail, `"network unreachable" by ICMP from 10.9.0.9`)
	want(t, got, "d/good 10.96.0.10:80", probe.OK, "connected to")
	want(t, got, "d/lost 10.96.0.11:80", probe.Fail, "no answer from 10.96.0.11:80 within ")
	want(t, got, "d/empty 10.96.0.12:80", probe.Fail, `"port unreachable" by ICMP`)
	want(t, got, "d/unrouted 10.97.0.1:80", probe.Fail, "no route")
	if len(got) != 6 { // one says that it cannot enter pods
		t.Errorf("%d results: an endpoint is no service: %+v", len(got), got)
	}
	listenFar(t, "10.244.1.2:443")
	do(t, "nft add rule ip s nat ip daddr 10.96.0.1 tcp dport 443 dnat to 10.244.1.2:443")
	want(t, run(t, ServiceClusterIP, &probe.Host{}, api), "default/kubernetes 10.96.0.1:443", probe.OK, "connected to")

	nodePort := func(node, addr string) probe.Target {
		t := port(at(probe.KindNodePort, "d/web", addr), 30080)
		t.Node = node
		return t
	}
	// As in the incident: this node and the one with the pod answer, another does not.
	got = run(t, ServiceNodePort, &probe.Host{}, nodePort("a", "10.9.0.1"), nodePort("b", "10.9.1.2"),
		nodePort("c", "10.244.1.4"), nodePort("d", "10.9.1.9"))
	want(t, got, "d/web a 10.9.0.1:30080", probe.OK, "connected to")
	want(t, got, "d/web b 10.9.1.2:30080", probe.OK, "connected to")
	want(t, got, "d/web c 10.244.1.4:30080", probe.Fail, "no answer from 10.244.1.4:30080")
	want(t, got, "d/web d 10.9.1.9:30080", probe.Fail, "refused")
	do(t, "nft delete table ip s")
	got = run(t, ServiceNodePort, &probe.Host{}, nodePort("a", "10.9.0.1"), nodePort("d", "10.9.1.9"))
	want(t, got, "d/web a 10.9.0.1:30080", probe.Info, "as at every node")
	want(t, got, "d/web d 10.9.1.9:30080", probe.Info, "as at every node")
	want(t, run(t, ServiceNodePort, &probe.Host{}, nodePort("d", "10.9.1.9")), "d/web d 10.9.1.9:30080", probe.Fail,
		"refused")
}

// TestRealLocalPods pings the pods of this node too, and not the one it stands in.
func TestRealLocalPods(t *testing.T) {
	if !nstest.Enter(t, twoNodes+`
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
	targets := []probe.Target{at(probe.KindLocal, "here", "10.244.0.7"), at(probe.KindPod, "far", "10.244.1.2"),
		at(probe.KindLocal, "self", netip.MustParseAddr("10.9.0.1").String())}
	ask := func() []probe.Result { return run(t, PodPing, &probe.Host{}, targets...) }
	got := ask()
	want(t, got, "here 10.244.0.7", probe.OK, "5 of 5")
	want(t, got, "far 10.244.1.2", probe.OK, "5 of 5")
	want(t, got, "", probe.Skip, "cannot enter")
	if len(got) != 3 {
		t.Errorf("%+v", got)
	}
	do(t, "ip -n here link set eth0 down")
	want(t, ask(), "here 10.244.0.7", probe.Fail, "none of 5")
}

// TestRealPodMTU narrows the way between two nodes, lets the router say so, and then
// keeps it from saying so.
func TestRealPodMTU(t *testing.T) {
	if !nstest.Enter(t, twoNodes) {
		return
	}
	pods := []probe.Target{at(probe.KindPod, "far", "10.244.1.2"), at(probe.KindPod, "far6", "fd00:244::2")}
	ask := func() []probe.Result {
		t.Helper()
		return run(t, PodMTU, &probe.Host{}, append(pods, at(probe.KindPod, "gone", "10.244.1.77"))...)
	}
	num := func(r probe.Result, key probe.Fact, want int) {
		t.Helper()
		if n, ok := r.Facts.Num(key); !ok || int(n) != want {
			t.Errorf("%s: %s is %v, want %d", r.Target, key, r.Facts[key], want)
		}
	}
	settled(t, pods...)
	got := ask()
	num(want(t, got, "far 10.244.1.2", probe.OK, "packets of 1500 bytes pass, the full MTU of eth0"), FactPasses, 1500)
	num(want(t, got, "far6 fd00:244::2", probe.OK, "packets of 1500 bytes pass"), FactPromised, 1500)
	want(t, got, "gone 10.244.1.77", probe.Unknown, "not even packets of 256 bytes")

	do(t, "ip netns exec router nft add table ip scrub",
		"ip netns exec router nft add chain ip scrub pre { type filter hook prerouting priority -450 ; }",
		"ip netns exec router nft add rule ip scrub pre ip frag-off & 0x3fff != 0 drop")
	got = ask()
	lost := want(t, got, "far 10.244.1.2", probe.Info, "packets of 1500 bytes pass", "larger pings, in fragments, are lost")
	if lost.Facts.Str(probe.FactReason) != ReasonFragments {
		t.Errorf("%+v", lost)
	}
	want(t, got, "far6 fd00:244::2", probe.OK, "packets of 1500 bytes pass")
	do(t, "ip netns exec router nft delete table ip scrub")

	// The router knows, and says so.
	do(t, "ip -n router link set far mtu 1400", "ip -n far link set eth0 mtu 1400")
	for range 2 { // also when the kernel has learnt it
		got = ask()
		num(want(t, got, "far 10.244.1.2", probe.Info,
			"a router on the way reports a path MTU of 1400, and such packets pass; the sender's eth0 has 1500"), FactTold, 1400)
		num(want(t, got, "far6 fd00:244::2", probe.Info, "a path MTU of 1400, and such packets pass"), FactPasses, 1400)
	}
	// It is not let say so: the black hole.
	do(t, "ip netns exec router nft add table inet t",
		"ip netns exec router nft add chain inet t out { type filter hook output priority 0 ; }",
		"ip netns exec router nft add rule inet t out icmp type destination-unreachable drop",
		"ip netns exec router nft add rule inet t out icmpv6 type packet-too-big drop")
	got = ask()
	r := want(t, got, "far 10.244.1.2", probe.Fail,
		"packets of 1400 bytes pass, those of 1401 are lost without an ICMP error; the sender's eth0 has 1500")
	num(r, FactPasses, 1400)
	num(r, FactSmallest, 1401)
	want(t, got, "far6 fd00:244::2", probe.Fail, "packets of 1400 bytes pass, those of 1401 are lost")
	// A route or an interface that promises no more than that is right.
	do(t, "ip route replace 10.244.0.0/16 via 10.9.0.9 mtu 1400",
		"ip -6 route replace fd00:244::/64 via fd09::9 mtu 1400")
	got = ask()
	want(t, got, "far 10.244.1.2", probe.OK, "packets of 1400 bytes pass")
	want(t, got, "far6 fd00:244::2", probe.OK, "packets of 1400 bytes pass")
	do(t, "ip route replace 10.244.0.0/16 via 10.9.0.9", "ip link set eth0 mtu 9000")
	r = want(t, ask(), "far 10.244.1.2", probe.Fail, "packets of 1400 bytes pass", "eth0 has 9000")
	num(r, FactPromised, 9000)
	// Loss is no matter of size.
	do(t, "ip link set eth0 mtu 1400",
		"ip netns exec router nft add chain inet t f { type filter hook forward priority 0 ; }",
		"ip netns exec router nft add rule inet t f drop")
	want(t, ask(), "far 10.244.1.2", probe.Unknown, "not even packets of 256 bytes")
}

// TestRealRoutePods takes a pod's route away, leads it to another pod, and puts it back.
func TestRealRoutePods(t *testing.T) {
	if !nstest.Enter(t, twoNodes+`
ip link add caliab026e27ce4 type veth peer name eth7 netns far
ip link add cali961ed78da02 type veth peer name eth8 netns far
ip link set caliab026e27ce4 up
ip link set cali961ed78da02 up
ip -n far link set eth7 up
ip -n far link set eth8 up
ip route add 10.244.0.7 dev caliab026e27ce4
ip -6 route add fd00:244:7::7 dev caliab026e27ce4
ip route add 10.244.0.8 dev cali961ed78da02
ip route add blackhole 10.244.0.0/26
`) {
		return
	}
	pods := []probe.Target{at(probe.KindLocal, "default/workload-a", "10.244.0.7"),
		at(probe.KindLocal, "default/workload-a", "fd00:244:7::7")}
	ask := func() []probe.Result { return run(t, RoutePods, &probe.Host{}, pods...) }
	if got := ask(); len(got) != 2 {
		t.Errorf("%+v", got)
	}
	want(t, ask(), "IPv4", probe.OK, "1 of 1 pods")
	want(t, ask(), "IPv6", probe.OK, "1 of 1 pods")
	do(t, "ip route del 10.244.0.7", "ip route del 10.244.0.8")
	got := ask()
	want(t, got, "IPv4", probe.Fail, "default/workload-a 10.244.0.7, whose interface caliab026e27ce4 is there")
	want(t, got, "IPv6", probe.OK, "1 of 1 pods")
	want(t, got, "other pods", probe.Warn, "cali961ed78da02")
	do(t, "ip route add 10.244.0.7 dev cali961ed78da02")
	want(t, ask(), "IPv4", probe.Fail, "leads to cali961ed78da02 and its interface is caliab026e27ce4")
	want(t, run(t, RoutePods, &probe.Host{}, at(probe.KindLocal, "default/other", "10.244.0.9")), "", probe.Skip,
		"Calico's name")
}
