//go:build e2e

package ask

import (
	"slices"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// own marks a target as the node's own.
func own(t probe.Target) probe.Target {
	t.Attrs = map[string]string{probe.AttrOwn: "true"}
	return t
}

// TestRealBlockFaults covers faults worse than a missing route: a route to two nodes, a block with two owners, a
// borrowed address that follows its block's route, and a tunnel to the wrong node.
func TestRealBlockFaults(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture+`
ip route add 10.244.20.0/26 nexthop via 10.9.0.2 nexthop via 10.9.0.3
ip route add 10.244.21.0/26 nexthop via 10.9.0.2 nexthop via 10.9.0.9
ip route add 10.244.22.0/26 via 10.9.0.2
ip route add 10.244.22.5/32 via 10.9.0.3
ip route add blackhole 10.244.23.0/26
ip -6 route add fd00:244:20::/64 nexthop via fd09::2 nexthop via fd09::3
ip link add vxlan.calico type vxlan id 4096 dstport 4789 local 10.9.0.1
ip addr add 10.244.77.0/32 dev vxlan.calico
ip link set vxlan.calico up
ip route add 10.244.24.0/26 via 10.244.24.0 dev vxlan.calico onlink
`) {
		return
	}
	b := func(cidr string) probe.Target { return checktest.BlockOf(cidr, "b", "10.9.0.2") }
	c := func(cidr string) probe.Target { return checktest.BlockOf(cidr, "c", "10.9.0.3") }
	ask := func(targets ...probe.Target) []probe.Result {
		return checktest.Run(t, routeBlocksCheck, &probe.Host{Root: t.TempDir()}, targets...)
	}
	with := c("10.244.2.0/26") // so that the plan contains node c
	r := checktest.Want(t, ask(b("10.244.20.0/26"), with), "IPv4", probe.Fail,
		"10.244.20.0/26 of b leads to b 10.9.0.2 and c 10.9.0.3 at once")
	if len(r.Facts[route.FactWrong].([]string)) != 2 { // 10.244.2.0/26 is b's
		t.Errorf("%+v", r.Facts)
	}
	checktest.Want(t, ask(checktest.BlockOf("fd00:244:20::/64", "b", "fd09::2"),
		checktest.BlockOf("fd00:244:9::/64", "c", "fd09::3")), "IPv6",
		probe.Fail, "of b leads to b fd09::2 and c fd09::3 at once")
	if r := ask(b("10.244.21.0/26"))[0]; r.Status == probe.Fail { // the second next hop is a router
		t.Errorf("%+v", r)
	}

	checktest.Want(t, ask(b("10.244.1.0/26"), c("10.244.1.0/26")), "IPv4", probe.Fail,
		"1 of 2 blocks of other nodes belong to two nodes in Calico's IPAM: 10.244.1.0/26 of b and c")
	r = checktest.Want(t, ask(own(checktest.BlockOf("10.244.1.0/26", "a", "10.9.0.1")), c("10.244.1.0/26")), "IPv4",
		probe.Fail,
		"10.244.1.0/26 of a and c")
	owners := r.Facts[route.FactOwners].(map[probe.Fact]map[string][]string)
	if of := owners[route.FactShared]; !slices.Equal(of["10.244.1.0/26"],
		[]string{"a", "c"}) {
		t.Errorf("%+v", r.Facts)
	}

	got := ask(b("10.244.22.0/26"), c("10.244.22.5/32"))
	checktest.Want(t, got, "IPv4", probe.OK)
	checktest.Want(t, got, "IPv4 addresses", probe.OK, "all 1 addresses borrowed by other nodes")
	checktest.Want(t, ask(b("10.244.22.0/26"), c("10.244.22.6/32")), "IPv4 addresses", probe.Fail,
		"1 of 1 addresses borrowed by other nodes have no host route: 10.244.22.6 of c")
	checktest.Want(t, ask(c("10.244.9.0/26"), b("10.244.22.5/32")), "IPv4 addresses", probe.Fail,
		"10.244.22.5 of b leads to c 10.9.0.3 by eth0")
	checktest.Want(t, ask(own(checktest.BlockOf("10.244.23.0/26", "a", "10.9.0.1")), c("10.244.23.7/32")),
		"IPv4 addresses", probe.Fail,
		"10.244.23.7 of c")
	r = checktest.Want(t, ask(c("10.244.23.0/26")), "IPv4", probe.Fail, "a blackhole route on this node drops packets to 1 of 1")
	if of := r.Facts[route.FactOwners].(map[probe.Fact]map[string][]string)[route.FactSwallowed]; !slices.Equal(
		of["10.244.23.0/26"], []string{"c"}) {
		t.Errorf("%+v", r.Facts)
	}

	inside := func(node, addr string) probe.Target { return checktest.At(probe.KindTunnel, node, addr) }
	checktest.Want(t, ask(b("10.244.24.0/26")), "IPv4", probe.OK)
	checktest.Want(t, ask(b("10.244.24.0/26"), inside("b", "10.244.24.0")), "IPv4", probe.OK)
	checktest.Want(t, ask(b("10.244.24.0/26"), inside("c", "10.244.24.0")), "IPv4", probe.Fail,
		"10.244.24.0/26 of b leads to c 10.244.24.0 by vxlan.calico")
	checktest.Want(t, ask(c("10.244.24.9/32"), inside("b", "10.244.24.0")), "IPv4 addresses", probe.Fail,
		"10.244.24.9 of c")
}
