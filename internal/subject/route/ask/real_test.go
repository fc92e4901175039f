//go:build e2e

package ask

import (
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

func TestRealRoutes(t *testing.T) {
	h := &probe.Host{Root: "/", Proc: "/proc"}
	t.Run("each kind", func(t *testing.T) {
		if !nstest.Enter(t, checktest.Furniture) {
			return
		}
		got := checktest.Run(t, routeCanReachCheck, h,
			checktest.At(probe.KindNode, "peer", "10.9.0.2"), checktest.At(probe.KindPod, "pod", "10.244.1.2"),
			checktest.At(probe.KindPod, "felix", "10.244.2.2"),
			checktest.At(probe.KindPod, "hole", "10.244.3.2"), checktest.At(probe.KindPod, "unreachable", "10.244.4.2"),
			checktest.At(probe.KindPod, "prohibit", "10.244.5.2"),
			checktest.At(probe.KindPeer, "docker", "172.18.0.1"), checktest.At(probe.KindPod, "pod6", "fd00:244::2"),
			checktest.At(probe.KindNode, "none6", "fd77::1"),
			checktest.At(probe.KindSelf, "self", "10.9.0.1"))
		checktest.Want(t, got, "peer 10.9.0.2", probe.OK, "dev eth0 src 10.9.0.1, route 10.9.0.0/24 proto kernel")
		checktest.Want(t, got, "pod 10.244.1.2", probe.OK,
			"via 10.9.0.2 dev eth0 src 10.9.0.1, route 10.244.1.0/26 proto bird")
		checktest.Want(t, got, "felix 10.244.2.2", probe.OK, "proto felix")
		checktest.Want(t, got, "hole 10.244.3.2", probe.Fail, "blackhole")
		checktest.Want(t, got, "unreachable 10.244.4.2", probe.Fail, "unreachable")
		checktest.Want(t, got, "prohibit 10.244.5.2", probe.Fail, "prohibit")
		checktest.Want(t, got, "docker 172.18.0.1", probe.Fail, "no route")
		checktest.Want(t, got, "pod6 fd00:244::2", probe.OK, "via fd09::2 dev", "proto bird")
		checktest.Want(t, got, "none6 fd77::1", probe.Fail, "no route")
		checktest.Want(t, got, "IPv4 default route", probe.Info, "no default route")
	})
	t.Run("default route", func(t *testing.T) {
		if !nstest.Enter(t, checktest.Furniture+"ip route add default via 10.9.0.2\n") {
			return
		}
		got := checktest.Run(t, routeCanReachCheck, h,
			checktest.At(probe.KindPod, "pod", "10.244.9.2"), checktest.At(probe.KindNode, "peer", "10.9.0.2"),
			checktest.At(probe.KindSelf, "self", "10.0.0.66"))
		checktest.Want(t, got, "pod 10.244.9.2", probe.Info, "only the default route")
		checktest.Want(t, got, "peer 10.9.0.2", probe.Info, "Calico registered 10.0.0.66")
		checktest.Want(t, got, "IPv4 default route", probe.OK, "via 10.9.0.2 dev eth0")
	})
}

// TestRealBlocks deletes and misdirects routes to other nodes' blocks.
func TestRealBlocks(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture+"ip route add default via 10.9.0.9\nip route add blackhole 10.244.7.0/26 proto bird\n") {
		return
	}
	block := func(cidr, node, addr string) probe.Target {
		return probe.Target{Kind: probe.KindBlock, Name: cidr, Node: node, Addr: netip.MustParseAddr(addr)}
	}
	good, felix, six := block("10.244.1.0/26", "b", "10.9.0.2"), block("10.244.2.0/26", "b", "10.9.0.2"),
		block("fd00:244::/64", "b", "fd09::2")
	own := block("10.244.7.0/26", "a", "10.9.0.1")
	own.Attrs = map[string]string{probe.AttrOwn: "true"}
	ask := func(targets ...probe.Target) []probe.Result {
		return checktest.Run(t, routeBlocksCheck, &probe.Host{}, targets...)
	}
	got := ask(good, felix, six, own)
	checktest.Want(t, got, "IPv4", probe.OK, "all 2 blocks")
	checktest.Want(t, got, "IPv6", probe.OK, "all 1 blocks")
	checktest.Want(t, got, "own IPv4", probe.OK, "all 1 blocks of this node")
	r := checktest.Want(t, ask(good, block("10.244.9.0/26", "c", "10.9.0.3")), "IPv4", probe.Fail,
		"1 of 2 blocks of other nodes have no route: 10.244.9.0/26 of c")
	if r.Facts[route.FactNoRoute] == nil {
		t.Errorf("%+v", r.Facts)
	}
	checktest.Want(t, ask(block("10.244.1.0/26", "c", "10.9.0.3"), felix), "IPv4", probe.Fail,
		"1 of 2 blocks of other nodes are routed to the wrong node: 10.244.1.0/26 of c leads to b 10.9.0.2 by eth0")
	checktest.Want(t, ask(block("10.244.1.0/26", "c", "10.9.0.3")), "IPv4", probe.Info,
		"through a router") // 10.9.0.2 is not a node
	checktest.Want(t, ask(block("10.244.9.0/26", "far", "10.77.0.3")), "IPv4", probe.Info,
		"through a router") // the same router as for the node itself
	pool := func(cidr, attr, mode string) probe.Target {
		return probe.Target{Kind: probe.KindPool, Name: cidr, Attrs: map[string]string{attr: mode}}
	}
	far, tor := block("10.244.9.0/26", "far", "10.77.0.3"), checktest.Session("global", "tor", "10.9.0.254", 179)
	for _, p := range []probe.Target{pool("10.244.0.0/16", probe.AttrIPIP, "CrossSubnet"),
		pool("10.244.0.0/16", probe.AttrVXLAN, "Always")} {
		checktest.Want(t, ask(far, p), "IPv4", probe.Fail, "1 of 1 blocks of other nodes have no route: 10.244.9.0/26 of far") // the router has no route to it
	}
	checktest.Want(t, ask(far, tor, pool("10.244.0.0/16", probe.AttrVXLAN, "CrossSubnet")), "IPv4", probe.Fail, "no route")
	checktest.Want(t, ask(far, tor, pool("10.244.0.0/16", probe.AttrIPIP, "Always")), "IPv4", probe.Info,
		"through a router")
	byFelix := func(more ...probe.Target) int {
		got := ask(append(more, far)...)
		list, _ := checktest.Want(t, got, "IPv4", probe.Fail, "no route").Facts[route.FactByFelix].([]string)
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
	checktest.Want(t, ask(far, pool("10.244.0.0/16", probe.AttrIPIP, "Never"),
		pool("10.99.0.0/16", probe.AttrIPIP, "Always")),
		"IPv4", probe.Info, "through a router")
	lost := block("10.244.9.0/26", "c", "10.9.0.3")
	lost.Attrs = map[string]string{probe.AttrNode: "NotReady"}
	checktest.Want(t, ask(good, lost), "IPv4", probe.Warn, "1 of 2 blocks of other nodes have no route: 10.244.9.0/26 of c",
		"the API reports c as NotReady")
	checktest.Want(t, ask(lost, block("10.244.8.0/26", "d", "10.9.0.4")), "IPv4", probe.Fail,
		"2 of 2 blocks of other nodes have no route: 10.244.8.0/26 of d, 10.244.9.0/26 of c")
	// Without the table there may be other routes, but a lookup still reveals a blackhole.
	unread := routeView{nodes: map[netip.Addr]string{good.Addr: "b"}, unread: errors.New("interrupted")}
	on := func(of probe.Target) []ipamBlock {
		return []ipamBlock{{netip.MustParsePrefix(of.Name), of.Node, of.Addr,
			""}}
	}
	if r := unread.survey(on(good), nil).judge(foreign, 1, birdRoutes{}); r.Status != probe.Unknown {
		t.Errorf("without the table: %+v", r)
	}
	if r := unread.survey(on(block("10.244.3.0/26", "c", "10.9.0.3")), nil).judge(foreign, 1,
		birdRoutes{}); r.Status != probe.Fail || !strings.Contains(r.Saw, "a blackhole route on this node drops packets") {
		t.Errorf("a blackhole without the table: %+v", r)
	}
	checktest.Want(t, ask(block("10.244.3.0/26", "c", "10.9.0.3")), "IPv4", probe.Fail,
		"a blackhole route on this node drops packets to 1 of 1 blocks of other nodes: 10.244.3.0/26 of c")
	own.Name = "10.244.8.0/26"
	checktest.Want(t, ask(own), "own IPv4", probe.Info, "no blackhole route")
	checktest.Want(t, ask(checktest.At(probe.KindSelf, "self", "10.9.0.1")), "", probe.Skip, "no blocks")
	if out, err := exec.Command("ip", "route", "del", "10.244.1.0/26").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	checktest.Want(t, ask(good, felix), "IPv4", probe.Fail, "10.244.1.0/26 of b")
}
