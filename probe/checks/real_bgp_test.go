//go:build e2e

package checks

import (
	"bytes"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// meshOf is a BIRD configuration in confd's manner, for one address and its peers.
func meshOf(own string, peers ...string) string {
	text := `
router id ` + own + `;
listen bgp address ` + own + `;
protocol kernel kernel1 { learn; persist; scan time 2; import all; export all; graceful restart; merge paths on; }
protocol device device1 { scan time 2; }
protocol direct direct1 { interface "eth0"; }
template bgp bgp_template { local as 64512; multihop; gateway recursive; import all; export all; source address ` + own + `; graceful restart; connect delay time 1; connect retry time 1; error wait time 1,2; }
`
	for _, p := range peers {
		text += "protocol bgp Mesh_" + strings.ReplaceAll(p, ".",
			"_") + " from bgp_template { neighbor " + p + " as 64512; }\n"
	}
	return text
}

// birdIn starts a BIRD 1.6 in this network namespace, its socket and configuration
// below a node's root, as calico-node's run script does.
func birdIn(t *testing.T, h *probe.Host, config string, args ...string) *exec.Cmd {
	t.Helper()
	return startBIRD(t, "bird", h, config, args...)
}

func startBIRD(t *testing.T, version string, h *probe.Host, config string, args ...string) *exec.Cmd {
	t.Helper()
	file := filepath.Join(h.Root, "etc/calico/confd/config/bird.cfg")
	for _, dir := range []string{filepath.Dir(file), filepath.Join(h.Root, "run/calico")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join("../../.cache", version, "usr/sbin/bird"),
		append([]string{"-f", "-s", filepath.Join(h.Root, "run/calico/bird.ctl"), "-c", file}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the test may have done so
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("BIRD said:\n%s", &out)
		}
	})
	return cmd
}

// established waits until a node's BIRD has a session with the peer, by what bgp-session answers.
func established(t *testing.T, bgpSession *probe.Check, h *probe.Host, peer string) {
	t.Helper()
	eventually(t, func() bool {
		return slices.ContainsFunc(run(t, bgpSession, h, backend("bird"), self("127.0.0.1")),
			func(r probe.Result) bool { return r.Target == peer && r.Status == probe.OK })
	})
}

// TestRealGracefulRestart starts a BIRD as calico-node does, with one peer that
// lives and one that is gone: the dead one must be named as what holds back the
// routes of the other.
func TestRealGracefulRestart(t *testing.T) {
	if !nstest.Enter(t, furniture) {
		return
	}
	const socket = "/run/calico/bird.ctl"
	far, h := node(t, map[string]string{"run/calico/x": ""}), node(t, map[string]string{"run/calico/x": ""})
	birdIn(t, far, meshOf("127.0.0.2", "127.0.0.1")+"protocol static static1 { route 10.244.99.0/26 blackhole; }\n")
	dead := birdIn(t, h, meshOf("127.0.0.1", "127.0.0.2", "127.0.0.3"), "-R")
	established(t, BGPSession, h, "127.0.0.2")
	ask := func() []probe.Result { return run(t, BGPSession, h, backend("bird"), self("127.0.0.1")) }
	r := want(t, ask(), socket, probe.Warn, "graceful restart: no BGP route enters the kernel for up to 2",
		"unless these come up: 127.0.0.3")
	if left, ok := r.Facts.Num(FactWaitLeft); !ok || left < 1 || r.Facts.Str(FactKernelState) != "wait" {
		t.Errorf("%+v", r.Facts)
	}
	kill(t, dead)
	birdIn(t, h, meshOf("127.0.0.1", "127.0.0.2"), "-R") // without the dead peer nothing holds routes back
	established(t, BGPSession, h, "127.0.0.2")
	eventually(t, func() bool {
		return slices.ContainsFunc(ask(),
			func(r probe.Result) bool { return r.Target == socket && r.Status == probe.OK })
	})
	if out, err := exec.Command("../../.cache/bird/usr/sbin/birdc", "-s", filepath.Join(h.Root, socket), "disable",
		"kernel1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want(t, ask(), socket, probe.Fail,
		"1 of 1 peers established, and BIRD writes no routes into the kernel: its kernel protocol is down")
}

// TestRealGracefulRestart2 asks the same of BIRD 2, which tells it for each channel.
func TestRealGracefulRestart2(t *testing.T) {
	if !nstest.Enter(t, furniture) {
		return
	}
	h := node(t, map[string]string{"run/calico/x": ""})
	startBIRD(t, "bird2", h, `
router id 10.0.0.1;
protocol kernel kernel1 { ipv4 { import all; export all; }; learn; persist; graceful restart; }
protocol device device1 { }
template bgp bgp_template { local 127.0.0.1 as 64512; strict bind on; multihop; ipv4 { import all; export all; }; graceful restart; connect retry time 1; error wait time 1,2; }
protocol bgp Mesh_127_0_0_3 from bgp_template { neighbor 127.0.0.3 as 64512; }
`, "-R")
	ask := func() []probe.Result { return run(t, BGPSession, h, backend("bird"), self("127.0.0.1")) }
	eventually(t, func() bool {
		return slices.ContainsFunc(ask(), func(r probe.Result) bool { return r.Target == "127.0.0.3" })
	})
	want(t, ask(), "/run/calico/bird.ctl", probe.Warn, "graceful restart", "unless these come up: 127.0.0.3")
}

// TestRealBirdConfig takes the configuration from under a BIRD, and the BIRD from
// beside confd.
func TestRealBirdConfig(t *testing.T) {
	if !nstest.Enter(t, furniture) {
		return
	}
	h := node(t, map[string]string{"run/calico/x": ""})
	h.Proc = "/proc"
	file := filepath.Join(h.Root, "etc/calico/confd/config/bird.cfg")
	cmd := birdIn(t, h, meshOf("127.0.0.1", "127.0.0.2", "127.0.0.3"), "-R")
	ask := func() []probe.Result { return run(t, BirdConfig, h, backend("bird"), self("127.0.0.1")) }
	eventually(t, func() bool { // until BIRD answers, the file alone is judged
		return slices.ContainsFunc(run(t, BirdSocket, h, backend("bird")),
			func(r probe.Result) bool { return r.Status == probe.OK })
	})
	want(t, ask(), file, probe.OK, "router ID 127.0.0.1, 2 BGP peers")
	if err := os.WriteFile(file, []byte(meshOf("127.0.0.1", "127.0.0.2")), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, ask(), file, probe.Info, "1 BGP peers", "about to be loaded")
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	want(t, ask(), file, probe.Fail, "has no protocol")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	want(t, ask(), file, probe.Fail, "the file does not exist")
	kill(t, cmd)
	want(t, ask(), "", probe.Fail, "neither BIRD nor confd runs")
	// a process of that name is all of confd that can be had without Calico
	confd := exec.Command(bashAs(t, "confd"), "-c", "read x")
	if _, err := confd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := confd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = confd.Process.Kill()
		_ = confd.Wait()
	}()
	want(t, ask(), "/etc/calico/confd/config/bird.cfg", probe.Fail, "bird is not running but confd is",
		"does not exist")
}

// TestRealBGPExpected takes a peer out of a BIRD's configuration that the API
// still asks for.
func TestRealBGPExpected(t *testing.T) {
	if !nstest.Enter(t, furniture) {
		return
	}
	h := node(t, map[string]string{"run/calico/x": ""})
	b, c := session("mesh", "b", "127.0.0.2", 179), session("mesh", "c", "127.0.0.3", 179)
	ask := func() []probe.Result { return run(t, BGPExpected, h, backend("bird"), self("127.0.0.1"), b, c) }
	cmd := birdIn(t, h, meshOf("127.0.0.1", "127.0.0.2", "127.0.0.3"))
	eventually(t, func() bool { return ask()[0].Status == probe.OK })
	want(t, ask(), "IPv4", probe.OK, "all 2 peers that the API expects: 2 mesh")
	kill(t, cmd)
	birdIn(t, h, meshOf("127.0.0.1", "127.0.0.2", "127.0.0.9"))
	eventually(t, func() bool { return ask()[0].Status == probe.Fail })
	want(t, ask(), "IPv4", probe.Fail,
		"BIRD lacks 1 of 2 peers that the API expects: c 127.0.0.3; BIRD has 1 that the API does not know: Mesh_127_0_0_9")
}

// own marks a target as the node's own.
func own(t probe.Target) probe.Target {
	t.Attrs = map[string]string{probe.AttrOwn: "true"}
	return t
}

// TestRealBlockFaults has what is worse than a missing route: one that leads to two
// nodes, an owner too many, a borrowed address that goes with its block, a tunnel to
// the wrong node.
func TestRealBlockFaults(t *testing.T) {
	if !nstest.Enter(t, furniture+`
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
	b := func(cidr string) probe.Target { return blockOf(cidr, "b", "10.9.0.2") }
	c := func(cidr string) probe.Target { return blockOf(cidr, "c", "10.9.0.3") }
	ask := func(targets ...probe.Target) []probe.Result {
		return run(t, RouteBlocks, &probe.Host{Root: t.TempDir()}, targets...)
	}
	with := c("10.244.2.0/26") // makes c known as a node
	r := want(t, ask(b("10.244.20.0/26"), with), "IPv4", probe.Fail,
		"10.244.20.0/26 of b leads to b 10.9.0.2 and c 10.9.0.3 at once")
	if len(r.Facts[FactWrong].([]string)) != 2 { // 10.244.2.0/26 is b's
		t.Errorf("%+v", r.Facts)
	}
	want(t, ask(blockOf("fd00:244:20::/64", "b", "fd09::2"), blockOf("fd00:244:9::/64", "c", "fd09::3")), "IPv6",
		probe.Fail, "of b leads to b fd09::2 and c fd09::3 at once")
	if r := ask(b("10.244.21.0/26"))[0]; r.Status == probe.Fail { // the second way is a router's
		t.Errorf("%+v", r)
	}

	want(t, ask(b("10.244.1.0/26"), c("10.244.1.0/26")), "IPv4", probe.Fail,
		"1 of 2 blocks of other nodes belong to two nodes at once in Calico's IPAM: 10.244.1.0/26 of b and c")
	r = want(t, ask(own(blockOf("10.244.1.0/26", "a", "10.9.0.1")), c("10.244.1.0/26")), "IPv4", probe.Fail,
		"10.244.1.0/26 of a and c")
	if of := r.Facts[FactOwners].(map[probe.Fact]map[string][]string)[FactShared]; !slices.Equal(of["10.244.1.0/26"],
		[]string{"a", "c"}) {
		t.Errorf("%+v", r.Facts)
	}

	got := ask(b("10.244.22.0/26"), c("10.244.22.5/32"))
	want(t, got, "IPv4", probe.OK)
	want(t, got, "IPv4 addresses", probe.OK, "all 1 addresses that other nodes borrowed")
	want(t, ask(b("10.244.22.0/26"), c("10.244.22.6/32")), "IPv4 addresses", probe.Fail,
		"1 of 1 addresses that other nodes borrowed have no route of their own: 10.244.22.6 of c")
	want(t, ask(c("10.244.9.0/26"), b("10.244.22.5/32")), "IPv4 addresses", probe.Fail,
		"10.244.22.5 of b leads to c 10.9.0.3 by eth0")
	want(t, ask(own(blockOf("10.244.23.0/26", "a", "10.9.0.1")), c("10.244.23.7/32")), "IPv4 addresses", probe.Fail,
		"10.244.23.7 of c")
	r = want(t, ask(c("10.244.23.0/26")), "IPv4", probe.Fail, "this node discards packets to 1 of 1")
	if of := r.Facts[FactOwners].(map[probe.Fact]map[string][]string)[FactSwallowed]; !slices.Equal(
		of["10.244.23.0/26"], []string{"c"}) {
		t.Errorf("%+v", r.Facts)
	}

	inside := func(node, addr string) probe.Target { return at(probe.KindTunnel, node, addr) }
	want(t, ask(b("10.244.24.0/26")), "IPv4", probe.OK)
	want(t, ask(b("10.244.24.0/26"), inside("b", "10.244.24.0")), "IPv4", probe.OK)
	want(t, ask(b("10.244.24.0/26"), inside("c", "10.244.24.0")), "IPv4", probe.Fail,
		"10.244.24.0/26 of b leads to c 10.244.24.0 by vxlan.calico")
	want(t, ask(c("10.244.24.9/32"), inside("b", "10.244.24.0")), "IPv4 addresses", probe.Fail, "10.244.24.9 of c")
}

// blockOf is a block, or a borrowed address, of a node.
func blockOf(cidr, node, addr string) probe.Target {
	return probe.Target{Kind: probe.KindBlock, Name: cidr, Node: node, Addr: netip.MustParseAddr(addr)}
}

// TestRealBlocksInBIRD asks a BIRD in a graceful restart, which has routes and keeps
// them to itself, about blocks the kernel lacks.
func TestRealBlocksInBIRD(t *testing.T) {
	if !nstest.Enter(t, furniture+"ip addr add 10.9.0.2/32 dev lo\n") {
		return
	}
	far, h := node(t, map[string]string{"run/calico/x": ""}), node(t, map[string]string{"run/calico/x": ""})
	mute := strings.Replace(meshOf("10.9.0.2", "10.9.0.1"), "import all; export all; graceful", "import all; export none; graceful", 1) // it shares this kernel
	birdIn(t, far, mute+"protocol static static1 { route 10.244.99.0/26 blackhole; }\n")
	birdIn(t, h, meshOf("10.9.0.1", "10.9.0.2", "10.9.0.3"), "-R")
	established(t, BGPSession, h, "10.9.0.2")
	known, unknown := blockOf("10.244.99.0/26", "b", "10.9.0.2"), blockOf("10.244.97.0/26", "c", "10.9.0.3")
	ask := func(targets ...probe.Target) []probe.Result { return run(t, RouteBlocks, h, targets...) }
	has := func(r probe.Result) bool { return r.Facts[FactInBIRD] != nil }
	eventually(t, func() bool { return slices.ContainsFunc(ask(known), has) })
	want(t, ask(known), "IPv4", probe.Fail,
		"1 of 1 blocks of other nodes have no route: 10.244.99.0/26 of b; BIRD has 10.244.99.0/26 from Mesh_10_9_0_2 but has not written it to the kernel")
	want(t, ask(unknown), "IPv4", probe.Fail, "10.244.97.0/26 of c; BIRD has no route either")
	want(t, ask(known, unknown), "IPv4", probe.Fail, "2 of 2", "BIRD has 10.244.99.0/26 from Mesh_10_9_0_2",
		", and no route to 1 others")
	vxlan := probe.Target{Kind: probe.KindPool, Name: "10.244.0.0/16",
		Attrs: map[string]string{probe.AttrVXLAN: "Always"}}
	if r := want(t, ask(known, vxlan), "IPv4", probe.Fail, "10.244.99.0/26 of b"); has(r) {
		t.Errorf("Felix makes this route, not BIRD: %+v", r)
	}
}
