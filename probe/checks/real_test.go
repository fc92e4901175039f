//go:build e2e

package checks

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird/birdtest"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

func at(kind, name, addr string) probe.Target {
	return probe.Target{Kind: kind, Name: name, Node: name, Addr: netip.MustParseAddr(addr)}
}

// A node with one neighbour's subnet, and a route of each kind that forbids.
const furniture = `
ip link set lo up
ip link add eth0 type veth peer name far
ip addr add 10.9.0.1/24 dev eth0
ip addr add fd09::1/64 dev eth0 nodad
ip link set eth0 up
ip link set far up
ip route add 10.244.1.0/26 via 10.9.0.2 proto bird
ip route add 10.244.2.0/26 via 10.9.0.2 proto 80
ip route add blackhole 10.244.3.0/26
ip route add unreachable 10.244.4.0/26
ip route add prohibit 10.244.5.0/26
ip -6 route add fd00:244::/64 via fd09::2 proto bird
`

func TestRealRoutes(t *testing.T) {
	h := &probe.Host{Root: "/", Proc: "/proc"}
	t.Run("each kind", func(t *testing.T) {
		if !nstest.Enter(t, furniture) {
			return
		}
		got := run(t, RouteCanReach, h,
			at(probe.KindNode, "peer", "10.9.0.2"), at(probe.KindPod, "pod", "10.244.1.2"),
			at(probe.KindPod, "felix", "10.244.2.2"),
			at(probe.KindPod, "hole", "10.244.3.2"), at(probe.KindPod, "unreachable", "10.244.4.2"),
			at(probe.KindPod, "prohibit", "10.244.5.2"),
			at(probe.KindPeer, "docker", "172.18.0.1"), at(probe.KindPod, "pod6", "fd00:244::2"),
			at(probe.KindNode, "none6", "fd77::1"),
			at(probe.KindSelf, "self", "10.9.0.1"))
		want(t, got, "peer 10.9.0.2", probe.OK, "by eth0 from 10.9.0.1, route 10.9.0.0/24 made by kernel")
		want(t, got, "pod 10.244.1.2", probe.OK,
			"by eth0 through 10.9.0.2 from 10.9.0.1, route 10.244.1.0/26 made by bird")
		want(t, got, "felix 10.244.2.2", probe.OK, "made by felix")
		want(t, got, "hole 10.244.3.2", probe.Fail, "blackhole")
		want(t, got, "unreachable 10.244.4.2", probe.Fail, "unreachable")
		want(t, got, "prohibit 10.244.5.2", probe.Fail, "prohibit")
		want(t, got, "docker 172.18.0.1", probe.Fail, "no route")
		want(t, got, "pod6 fd00:244::2", probe.OK, "through fd09::2", "made by bird")
		want(t, got, "none6 fd77::1", probe.Fail, "no route")
		want(t, got, "IPv4 default route", probe.Info, "there is no default route")
	})
	t.Run("default route", func(t *testing.T) {
		if !nstest.Enter(t, furniture+"ip route add default via 10.9.0.2\n") {
			return
		}
		got := run(t, RouteCanReach, h,
			at(probe.KindPod, "pod", "10.244.9.2"), at(probe.KindNode, "peer", "10.9.0.2"),
			at(probe.KindSelf, "self", "10.0.0.66"))
		want(t, got, "pod 10.244.9.2", probe.Info, "only the default route")
		want(t, got, "peer 10.9.0.2", probe.Info, "Calico registered 10.0.0.66")
		want(t, got, "IPv4 default route", probe.OK, "by eth0 through 10.9.0.2")
	})
}

// TestRealBlocks removes and misleads routes to other nodes' blocks.
func TestRealBlocks(t *testing.T) {
	if !nstest.Enter(t, furniture+"ip route add default via 10.9.0.9\nip route add blackhole 10.244.7.0/26 proto bird\n") {
		return
	}
	block := func(cidr, node, addr string) probe.Target {
		return probe.Target{Kind: probe.KindBlock, Name: cidr, Node: node, Addr: netip.MustParseAddr(addr)}
	}
	good, felix, six := block("10.244.1.0/26", "b", "10.9.0.2"), block("10.244.2.0/26", "b", "10.9.0.2"),
		block("fd00:244::/64", "b", "fd09::2")
	own := block("10.244.7.0/26", "a", "10.9.0.1")
	own.Attrs = map[string]string{probe.AttrOwn: "true"}
	ask := func(targets ...probe.Target) []probe.Result { return run(t, RouteBlocks, &probe.Host{}, targets...) }
	got := ask(good, felix, six, own)
	want(t, got, "IPv4", probe.OK, "all 2 blocks")
	want(t, got, "IPv6", probe.OK, "all 1 blocks")
	want(t, got, "own IPv4", probe.OK, "all 1 own blocks")
	r := want(t, ask(good, block("10.244.9.0/26", "c", "10.9.0.3")), "IPv4", probe.Fail,
		"1 of 2 blocks of other nodes have no route: 10.244.9.0/26 of c")
	if r.Facts[FactNoRoute] == nil {
		t.Errorf("%+v", r.Facts)
	}
	want(t, ask(block("10.244.1.0/26", "c", "10.9.0.3"), felix), "IPv4", probe.Fail,
		"1 of 2 blocks of other nodes lead to the wrong node: 10.244.1.0/26 of c leads to b 10.9.0.2 by eth0")
	want(t, ask(block("10.244.1.0/26", "c", "10.9.0.3")), "IPv4", probe.Info, "through a router")    // 10.9.0.2 is no node
	want(t, ask(block("10.244.9.0/26", "far", "10.77.0.3")), "IPv4", probe.Info, "through a router") // as the node itself
	pool := func(cidr, attr, mode string) probe.Target {
		return probe.Target{Kind: probe.KindPool, Name: cidr, Attrs: map[string]string{attr: mode}}
	}
	far, tor := block("10.244.9.0/26", "far", "10.77.0.3"), session("global", "tor", "10.9.0.254", 179)
	for _, p := range []probe.Target{pool("10.244.0.0/16", probe.AttrIPIP, "CrossSubnet"),
		pool("10.244.0.0/16", probe.AttrVXLAN, "Always")} {
		want(t, ask(far, p), "IPv4", probe.Fail, "1 of 1 blocks of other nodes have no route: 10.244.9.0/26 of far") // the router has never heard of it
	}
	want(t, ask(far, tor, pool("10.244.0.0/16", probe.AttrVXLAN, "CrossSubnet")), "IPv4", probe.Fail, "no route")
	want(t, ask(far, tor, pool("10.244.0.0/16", probe.AttrIPIP, "Always")), "IPv4", probe.Info, "through a router")
	byFelix := func(more ...probe.Target) int {
		got := ask(append(more, far)...)
		list, _ := want(t, got, "IPv4", probe.Fail, "no route").Facts[FactByFelix].([]string)
		return len(list)
	}
	if n := byFelix(pool("10.244.0.0/16", probe.AttrVXLAN, "Always")); n != 1 {
		t.Errorf("VXLAN: %d blocks are Felix's", n)
	}
	for by, want := range map[string]int{"": 0, probe.MakersBIRD: 0, probe.MakersNone: 0, probe.MakersFelix: 1,
		probe.MakersBoth: 1} {
		ipip := pool("10.244.0.0/16", probe.AttrIPIP, "Always")
		ipip.Attrs[probe.AttrMakers] = by
		if n := byFelix(ipip); n != want {
			t.Errorf("%q: %d blocks are Felix's, want %d", by, n, want)
		}
	}
	want(t, ask(far, pool("10.244.0.0/16", probe.AttrIPIP, "Never"), pool("10.99.0.0/16", probe.AttrIPIP, "Always")),
		"IPv4", probe.Info, "through a router")
	lost := block("10.244.9.0/26", "c", "10.9.0.3")
	lost.Attrs = map[string]string{probe.AttrNode: "NotReady"}
	want(t, ask(good, lost), "IPv4", probe.Warn, "1 of 2 blocks of other nodes have no route: 10.244.9.0/26 of c",
		"the API reports c as NotReady")
	want(t, ask(lost, block("10.244.8.0/26", "d", "10.9.0.4")), "IPv4", probe.Fail,
		"2 of 2 blocks of other nodes have no route: 10.244.8.0/26 of d, 10.244.9.0/26 of c")
	// A table that could not be read: nobody can say that the routes are the only ones,
	// and a lookup still tells a blackhole.
	unread := routeView{nodes: map[netip.Addr]string{good.Addr: "b"}, unread: errors.New("interrupted")}
	on := func(of probe.Target) []ipamBlock {
		return []ipamBlock{{netip.MustParsePrefix(of.Name), of.Node, of.Addr,
			""}}
	}
	if r := unread.survey(on(good), nil).judged(foreign, 1, birdKnows{}); r.Status != probe.Unknown {
		t.Errorf("without the table: %+v", r)
	}
	if r := unread.survey(on(block("10.244.3.0/26", "c", "10.9.0.3")), nil).judged(foreign, 1,
		birdKnows{}); r.Status != probe.Fail || !strings.Contains(r.Saw, "discards") {
		t.Errorf("a blackhole without the table: %+v", r)
	}
	want(t, ask(block("10.244.3.0/26", "c", "10.9.0.3")), "IPv4", probe.Fail,
		"this node discards packets to 1 of 1 blocks of other nodes by a blackhole route: 10.244.3.0/26 of c")
	own.Name = "10.244.8.0/26"
	want(t, ask(own), "own IPv4", probe.Info, "no blackhole route")
	want(t, ask(at(probe.KindSelf, "self", "10.9.0.1")), "", probe.Skip, "no blocks")
	if out, err := exec.Command("ip", "route", "del", "10.244.1.0/26").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want(t, ask(good, felix), "IPv4", probe.Fail, "10.244.1.0/26 of b")
}

// TestRealAutodetect adds the NIC of one incident and the bridge of another to a
// node and wants both named as what Calico would pick.
func TestRealAutodetect(t *testing.T) {
	if !nstest.Enter(t, furniture+`
ip link add ens224 type veth peer name far2
ip addr add 10.0.0.66/24 dev ens224
`) {
		return
	}
	calico := func(version, ip6, method string) probe.Target {
		return probe.Target{Kind: probe.KindCalico, Name: version, Attrs: map[string]string{
			probe.AttrIP: "autodetect", probe.AttrIP6: ip6, probe.AttrMethod: method,
			probe.AttrInternal: "10.9.0.1,fd09::1",
		}}
	}
	own, peer := at(probe.KindSelf, "self", "10.9.0.1"), at(probe.KindNode, "peer", "10.9.0.2")
	ask := func(targets ...probe.Target) []probe.Result { return run(t, IPAutodetect, &probe.Host{}, targets...) }
	r := want(t, ask(calico("v3.9.5", "none", ""), own, peer), "IPv4", probe.Fail,
		"first-found picks 10.0.0.66 on ens224 (veth), but 10.9.0.1 is registered", "next start",
		"0 of 1 other nodes are reached through ens224")
	if slices.ContainsFunc(r.Lines, func(l string) bool { return strings.HasPrefix(l, "cidr=") }) {
		t.Errorf("v3.9 has no cidr: %v", r.Lines)
	}
	r = want(t, ask(calico("v3.32.1", "none", "first-found"), own, peer), "IPv4", probe.Fail, "within a minute")
	for _, line := range []string{"can-reach=10.9.0.2 would pick 10.9.0.1 on eth0",
		"cidr=10.9.0.0/24 would pick 10.9.0.1 on eth0",
		"interface=^eth0$ would pick 10.9.0.1 on eth0 (veth); 1 of 1 other nodes are reached through eth0"} {
		if !slices.ContainsFunc(r.Lines, func(l string) bool { return strings.HasPrefix(l, line) }) {
			t.Errorf("the evidence lacks %q: %v", line, r.Lines)
		}
	}
	got := ask(calico("v3.32.1", "autodetect", "kubernetes-internal-ip"), own, peer,
		at(probe.KindSelf, "self", "fd09::1"))
	want(t, got, "IPv4", probe.OK, "kubernetes-internal-ip picks 10.9.0.1 on eth0")
	want(t, got, "IPv6", probe.OK, "first-found picks fd09::1 on eth0")
	want(t, ask(calico("v3.32.1", "none", "can-reach=10.9.0.2"), own, peer), "IPv4", probe.OK,
		"can-reach=10.9.0.2 picks 10.9.0.1")
	want(t, ask(calico("v3.15.0", "none", "kubernetes-internal-ip"), own, peer), "IPv4", probe.Fail, "has no method",
		"v3.22")
	want(t, ask(calico("v3.32.1", "none", "nonsense"), own, peer), "IPv4", probe.Fail, "is no autodetection method")
	want(t, ask(calico("v3.32.1", "none", "interface=eth7"), own, peer), "IPv4", probe.Warn, "finds no IPv4 address",
		"10.9.0.1 is kept")
	want(t, ask(calico("v3.32.1", "", ""), own), "IPv6", probe.Skip, "not to detect")

	for _, args := range [][]string{{"link", "del", "ens224"}, {"link", "add", "br-0a1b2c3d4e5f", "type", "bridge"},
		{"addr", "add", "172.18.0.1/16", "dev", "br-0a1b2c3d4e5f"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	want(t, ask(calico("v3.24.1", "none", ""), own, peer), "IPv4", probe.Fail,
		"first-found picks 172.18.0.1 on br-0a1b2c3d4e5f (bridge)")
	want(t, ask(calico("v3.25.0", "none", ""), own, peer), "IPv4", probe.OK, "first-found picks 10.9.0.1 on eth0")
	r = want(t, ask(calico("v3.24.1", "none", ""), at(probe.KindSelf, "self", "172.18.0.1"), peer), "IPv4",
		probe.Info, "it is not the node's InternalIP")
	if r.Facts.Str(FactKeptOn) != "br-0a1b2c3d4e5f" || r.Facts.Str(FactKeptOnKind) != "bridge" {
		t.Errorf("who has it: %v", r.Facts)
	}
	r = want(t, ask(calico("v3.25.0", "none", ""), at(probe.KindSelf, "self", "10.66.0.1"), peer), "IPv4", probe.Fail,
		"but 10.66.0.1 is registered")
	if on, told := r.Facts[FactKeptOn]; !told || on != "" {
		t.Errorf("nobody has it: %v", r.Facts)
	}
}

// TestRealBGPPort wants each way a connection can fail told apart.
func TestRealBGPPort(t *testing.T) {
	if !nstest.Enter(t, furniture+`
nft add table inet t
nft add chain inet t in { type filter hook input priority 0 ; }
nft add rule inet t in ip daddr 127.0.0.4 tcp dport 1790 drop
nft add rule inet t in ip daddr 127.0.0.7 tcp dport 1790 reject with icmp type host-prohibited
`) {
		return
	}
	backend := probe.Target{Kind: probe.KindBackend, Name: "bird", Port: 1790}
	h, node4 := node(t, map[string]string{"run/x": ""}), node(t, map[string]string{"run/calico/x": ""})
	want(t, run(t, BGPPort, h, backend, at(probe.KindNode, "node", "127.0.0.2")), "", probe.Skip,
		"the API expects no BGP session for this node")
	mesh := func(name, addr string) probe.Target { return session("mesh", name, addr, 1790) }
	want(t, run(t, BGPPort, h, backend, at(probe.KindSelf, "self", "127.0.0.1"), mesh("dead", "127.0.0.3")),
		"port 1790 here", probe.Fail, "nothing listens")
	l, err := net.Listen("tcp", "127.0.0.2:1790")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other, err := net.Listen("tcp", "127.0.0.5:1791")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	secret := mesh("secret", "127.0.0.4")
	secret.Attrs[probe.AttrPassword] = "true"
	if r := want(t, run(t, BGPPort, h, backend, at(probe.KindSelf, "self", "127.0.0.1"), secret), "secret 127.0.0.4",
		probe.Fail, "got no answer"); r.Facts[FactPassword] != true {
		t.Errorf("%+v", r.Facts)
	}
	if r := want(t, run(t, BGPPort, h, backend, at(probe.KindSelf, "self", "127.0.0.1"),
		mesh("rejected", "127.0.0.7")), "rejected 127.0.0.7", probe.Fail, "failed: ",
		"prohibited"); r.Facts.Str(probe.FactReason) != "rejected" {
		t.Errorf("%+v", r.Facts)
	}
	got := run(t, BGPPort, h, backend, at(probe.KindSelf, "self", "127.0.0.1"),
		mesh("good", "127.0.0.2"), mesh("dead", "127.0.0.3"), mesh("filtered", "127.0.0.4"),
		mesh("docker", "172.18.0.1"),
		session("mesh", "own-port", "127.0.0.5", 1791), session("global", "tor", "127.0.0.6", 1179))
	want(t, got, "port 1790 here", probe.OK, "127.0.0.2:1790")
	want(t, got, "good 127.0.0.2", probe.OK, "from 127.0.0.1 to port 1790")
	want(t, got, "dead 127.0.0.3", probe.Fail, "refused")
	want(t, got, "filtered 127.0.0.4", probe.Fail, "got no answer within ")
	want(t, got, "docker 172.18.0.1", probe.Fail, "no")
	want(t, got, "own-port 127.0.0.5", probe.OK, "to port 1791")
	want(t, got, "tor 127.0.0.6", probe.Fail, "to port 1179 refused")

	// The peer at another port has dialled this node, at this node's port.
	here, err := net.Listen("tcp", "127.0.0.1:1790")
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.5")}}
	theirs, err := d.Dial("tcp", "127.0.0.1:1790")
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	ours, err := here.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	got = run(t, BGPPort, h, backend, at(probe.KindSelf, "self", "127.0.0.1"),
		session("mesh", "own-port", "127.0.0.5", 1791))
	want(t, got, "own-port 127.0.0.5", probe.OK, "the BGP session is up")

	// Where the API does not tell, BIRD's own peers are asked.
	birdtest.Serve(t, filepath.Join(node4.Root, "run/calico/bird.ctl"), "../bird/testdata/bird-1.6.8-restarting.txt")
	got = nil
	r := probe.Runner{Suite: []*probe.Check{BGPPort}, Host: node4}
	plan := probe.Plan{Checks: []string{BGPPort.ID},
		Targets: []probe.Target{backend, at(probe.KindSelf, "self", "127.0.0.1")},
		Gaps:    map[string]string{probe.KindSession: "forbidden"}}
	r.Run(t.Context(), plan, func(ev probe.Event) {
		if ev.Result != nil {
			got = append(got, *ev.Result)
		}
	})
	if len(got) < 3 || !slices.ContainsFunc(got,
		func(r probe.Result) bool { return strings.HasSuffix(r.Target, " 127.0.0.3") && r.Status == probe.Fail }) {
		t.Errorf("by BIRD: %+v", got)
	}
	r.Host = h
	got = nil
	r.Run(t.Context(), plan, func(ev probe.Event) {
		if ev.Result != nil {
			got = append(got, *ev.Result)
		}
	})
	want(t, got, "", probe.Unknown, "the targets are not known: forbidden")

	got = run(t, BGPPort, h, backend, at(probe.KindSelf, "self", "10.99.99.99"), mesh("good", "127.0.0.2"))
	want(t, got, "good 127.0.0.2", probe.Fail, "from 10.99.99.99", "on no interface of this node")
	want(t, run(t, BGPPort, h, probe.Target{Kind: probe.KindBackend, Name: "vxlan"}), "", probe.Skip, "vxlan")
}

// TestRealHost makes faults of a node's kernel for real, in a namespace: forwarding
// turned off, a peer on the link that does not exist, a full disk.
func TestRealHost(t *testing.T) {
	if !nstest.Enter(t, furniture+`
mount --make-rprivate /
mount -t tmpfs -o size=1m tmpfs /var/log
`) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const forward = "net/ipv4/ip_forward"
	write("/proc/sys/"+forward, "1")
	want(t, run(t, NodeSysctl, h), forward, probe.OK, "1")
	write("/proc/sys/"+forward, "0")
	want(t, run(t, NodeSysctl, h), forward, probe.Fail, "does not forward")

	want(t, run(t, NodeConntrack, h), "", probe.OK, "entries")

	peer := at(probe.KindNode, "peer", "10.9.0.2") // on the link, and nobody there
	want(t, run(t, NodePing, h, peer), "peer 10.9.0.2", probe.Fail, "none of 5")
	eventually(t, func() bool {
		return slices.ContainsFunc(run(t, NodeNeighbours, h, peer),
			func(r probe.Result) bool { return r.Target == "peer 10.9.0.2" && r.Status == probe.Fail })
	})

	want(t, run(t, NodeDisk, h), "/var/log", probe.OK, "100 % of")
	write("/var/log/fill", strings.Repeat("x", 950<<10))
	want(t, run(t, NodeDisk, h), "/var/log", probe.Fail, "7 % of")
}

// TestRealPings wants loss, a missing route, silence and the node's own firewall
// told apart.
func TestRealPings(t *testing.T) {
	if !nstest.Enter(t, furniture+`
nft add table inet t
nft add chain inet t out { type filter hook output priority 0 ; }
nft add rule inet t out ip daddr 127.0.0.9 drop
nft add rule inet t out ip daddr 127.0.0.5 icmp type echo-request numgen inc mod 2 == 0 drop
nft add chain inet t in { type filter hook input priority 0 ; }
nft add rule inet t in ip daddr 127.0.0.8 drop
nft add rule inet t in ip daddr 127.0.0.4 icmp type echo-request drop
nft add rule inet t in ip daddr 127.0.0.7 icmp type echo-request numgen inc mod 2 == 0 drop
nft add rule inet t in ip daddr 127.0.0.6 icmp type echo-request reject with icmp type admin-prohibited
`) {
		return
	}
	got := run(t, NodePing, &probe.Host{},
		at(probe.KindNode, "good", "127.0.0.1"), at(probe.KindNode, "good6", "::1"),
		at(probe.KindNode, "firewall", "127.0.0.9"),
		at(probe.KindNode, "silent", "127.0.0.8"), at(probe.KindNode, "pingless", "127.0.0.4"),
		at(probe.KindNode, "lossy", "127.0.0.7"),
		at(probe.KindNode, "refusing", "127.0.0.6"),
		at(probe.KindNode, "nowhere", "172.18.0.1"), at(probe.KindNode, "hole", "10.244.3.2"),
		at(probe.KindNode, "choosy", "127.0.0.5"), at(probe.KindNode, "nowhere6", "fd77::1"))
	want(t, got, "good 127.0.0.1", probe.OK, "5 of 5")
	want(t, got, "good6 ::1", probe.OK, "5 of 5")
	want(t, got, "firewall 127.0.0.9", probe.Fail, "rejected locally")
	want(t, got, "silent 127.0.0.8", probe.Fail, "none of 5")
	want(t, got, "pingless 127.0.0.4", probe.Warn, "none of 5", "TCP 10250 answers there") // by a refusal
	want(t, got, "refusing 127.0.0.6", probe.Fail, "destination unreachable from", "code 13")
	want(t, got, "nowhere 172.18.0.1", probe.Fail, "net-unreachable")
	want(t, got, "hole 10.244.3.2", probe.Fail, "blackhole")
	r := want(t, got, "choosy 127.0.0.5", probe.Warn, "of 5 packets", "rejected locally")
	if n, _ := r.Facts.Num(FactReceived); n < 2 || n > 3 {
		t.Errorf("every other packet was refused: %v", r.Facts)
	}
	want(t, got, "nowhere6 fd77::1", probe.Fail, "net-unreachable")
	r = want(t, got, "lossy 127.0.0.7", probe.Warn, "of 5 packets")
	if n, _ := r.Facts.Num(FactReceived); n < 2 || n > 3 {
		t.Errorf("every other packet was dropped: %v", r.Facts)
	}
}

// daemonOf starts a program with namespaces of its own for mounts and network, and
// ends it with the test.
func daemonOf(t *testing.T, binary string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(filepath.Join("../../.cache", binary), args...)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":../../.cache/bin")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the test may have done so
		_ = cmd.Wait()
		if said, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s said:\n%s", binary, said)
		}
	})
	return cmd
}

// realContainerd starts a containerd below the node's root and waits until it
// answers.
func realContainerd(t *testing.T, h *probe.Host) *exec.Cmd {
	t.Helper()
	config := "version = 3\nroot = '" + h.Root + "/root'\nstate = '" + h.Root + "/state'\n[grpc]\naddress = '" + h.Root + "/run/containerd/containerd.sock'\n"
	file := filepath.Join(h.Root, "config.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := daemonOf(t, "bin/containerd", "--config", file)
	eventually(t, func() bool {
		got := run(t, ContainerdHealth, h)
		return len(got) == 4 &&
			!slices.ContainsFunc(got, func(r probe.Result) bool { return r.Target == "health" && r.Status != probe.OK })
	})
	return cmd
}

// eventually waits until ok is true.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	const limit = 90 * time.Second // a machine that runs two clusters beside this is slow
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in %v", limit)
		}
	}
}

// freeze stops a process where it stands; kill ends it.
func freeze(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { // else one of its threads still answers
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", cmd.Process.Pid))
		return err == nil && len(threads) > 0 && !slices.ContainsFunc(threads, func(name string) bool {
			stat, err := os.ReadFile(name)
			_, rest, _ := strings.Cut(string(stat), ") ")
			return err == nil && !strings.HasPrefix(rest, "T")
		})
	})
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
}

// TestRealContainerd asks a containerd of its own: alive, frozen, dead.
func TestRealContainerd(t *testing.T) {
	const socket = "/run/containerd/containerd.sock"
	h := node(t, nil)
	cmd := realContainerd(t, h)
	got := append(run(t, ContainerdHealth, h), run(t, CRIHealth, h)...)
	want(t, got, "version", probe.OK, "containerd 2.")
	want(t, got, "health", probe.OK, "SERVING")
	want(t, got, "tasks", probe.OK, "0 tasks")
	want(t, got, "cri-status", probe.Fail, "NetworkReady is false") // it has no CNI configuration
	want(t, got, socket+" version", probe.OK, "containerd 2.")
	want(t, got, socket+" containers", probe.OK, "0 containers")

	freeze(t, cmd)
	got = append(run(t, ContainerdHealth, h), run(t, CRIHealth, h)...)
	for _, part := range []string{"version", "health", "cri-status", "tasks", socket + " version",
		socket + " containers"} {
		want(t, got, part, probe.Fail, "does not answer within")
	}
	kill(t, cmd)
	want(t, run(t, ContainerdHealth, h), socket, probe.Fail, "nothing listens")
	want(t, run(t, CRIHealth, h), socket, probe.Fail, "nothing listens")
}

// TestRealContainerdWithoutCRI has a containerd as docker's packages set it, where
// it is not known which runtime the kubelet uses.
func TestRealContainerdWithoutCRI(t *testing.T) {
	h := node(t, map[string]string{"run/x": ""})
	file := filepath.Join(h.Root, "config.toml")
	config := "version = 3\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\nroot = '" + h.Root + "/root'\nstate = '" + h.Root + "/state'\n[grpc]\naddress = '" + h.Root + "/run/containerd/containerd.sock'\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	daemonOf(t, "bin/containerd", "--config", file)
	eventually(t, func() bool {
		return slices.ContainsFunc(run(t, ContainerdHealth, h),
			func(r probe.Result) bool { return r.Target == "cri-status" && strings.Contains(r.Saw, "not loaded") })
	})
	want(t, run(t, ContainerdHealth, h), "cri-status", probe.Fail,
		"its CRI plugin is not loaded, so the kubelet cannot use it")
	if err := os.WriteFile(h.Root+"/run/dockershim.sock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, run(t, ContainerdHealth, h), "cri-status", probe.Skip, "as is usual with docker")
}

// TestRealDocker is the incident: dockerd answers its ping while the containerd
// behind it is frozen.
func TestRealDocker(t *testing.T) {
	h := node(t, map[string]string{"run/x": ""})
	asDocker := probe.Target{Kind: probe.KindRuntime, Name: "docker://20.10.24"}
	behind := realContainerd(t, h)
	docker := daemonOf(t, "docker.io/usr/sbin/dockerd", "--containerd", h.Root+"/run/containerd/containerd.sock",
		"--iptables=false", "--ip6tables=false", "--bridge=none",
		"--data-root", h.Root+"/docker", "--exec-root", h.Root+"/exec", "--pidfile", h.Root+"/docker.pid", "-H",
		"unix://"+h.Root+"/run/docker.sock", "--storage-driver", "vfs")
	eventually(t, func() bool {
		got := run(t, DockerHealth, h, asDocker)
		return len(got) == 2 && got[0].Status == probe.OK && got[1].Status == probe.OK
	})
	want(t, run(t, DockerHealth, h, asDocker), "info", probe.OK, "docker 20.10", "0 of 0 containers")

	eventually(t, func() bool { // the kubelet does not ask this one for its CRI
		return !slices.ContainsFunc(run(t, ContainerdHealth, h, asDocker),
			func(r probe.Result) bool { return r.Status != probe.OK || r.Target == "cri-status" })
	})

	freeze(t, behind)
	got := run(t, DockerHealth, h, asDocker)
	want(t, got, "_ping", probe.OK, "OK")
	want(t, got, "info", probe.Fail, "no answer from dockerd /info within ")

	freeze(t, docker)
	want(t, run(t, DockerHealth, h, asDocker), "_ping", probe.Fail, "no answer")
	kill(t, docker)
	want(t, run(t, DockerHealth, h, asDocker), "_ping", probe.Fail, "refused")
}
