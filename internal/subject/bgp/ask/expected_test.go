package ask

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
	"github.com/calico-probe/calico-probe/probe/bird/birdtest"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/node"
)

func TestBGPExpected(t *testing.T) {
	t.Parallel()
	h := checktest.Node(t, map[string]string{"run/calico/x": ""})
	birdtest.Serve(t, filepath.Join(h.Root, "run/calico/bird.ctl"), "../../../../probe/bird/testdata/bird-1.6.8-restarting.txt")
	ask := func(targets ...probe.Target) []probe.Result {
		return checktest.Run(t, bgpExpectedCheck, h, append(targets, checktest.Backend("bird"),
			checktest.Self("127.0.0.1"))...)
	}
	b, c, d, tor := checktest.Session("mesh", "b", "127.0.0.2", 179), checktest.Session("mesh", "c", "127.0.0.3", 179),
		checktest.Session("node", "d", "127.0.0.4", 179), checktest.Session("global", "tor", "192.0.2.1", 179)
	checktest.Want(t, ask(b, c, d, tor), "IPv4", probe.OK, "all 4 peers that the API configures: 2 mesh, 1 global, 1 node")
	r := checktest.Want(t, ask(b, c, d, tor, checktest.Session("mesh", "e", "10.0.0.9", 179)), "IPv4", probe.Fail,
		"lacks 1 of 5",
		"e 10.0.0.9")
	if n, _ := r.Facts.Num(factExpected); n != 5 || len(r.Facts[probe.FactMissing].([]string)) != 1 {
		t.Errorf("%+v", r.Facts)
	}
	checktest.Want(t, ask(b, c, checktest.Session("node", "d", "127.0.0.4", 1790), tor), "IPv4", probe.Fail,
		"d 127.0.0.4 at port 1790, where BIRD has port 179")
	checktest.Want(t, ask(b, c, d), "IPv4", probe.Info, "all 3", "does not configure: Global_192_0_2_1")
	got := ask(b, c, d, tor, checktest.Session("mesh", "b", "fd00::2", 179))
	checktest.Want(t, got, "IPv4", probe.OK)
	checktest.Want(t, got, "IPv6", probe.Skip, "no IPv6 address")
	checktest.Want(t, checktest.Run(t, bgpExpectedCheck, h, b, checktest.Backend("vxlan")), "", probe.Skip, "vxlan")
	checktest.Want(t, ask(), "", probe.Skip, "configures no BGP session")
	dead := checktest.Node(t, map[string]string{"run/calico/x": ""})
	checktest.Want(t, checktest.Run(t, bgpExpectedCheck, dead, b, checktest.Backend("bird"), checktest.Self("127.0.0.1")),
		"IPv4", probe.Unknown,
		"cannot query peers: no such socket")
}

func TestComparePeers(t *testing.T) {
	t.Parallel()
	var expected []probe.Target
	var protocols []bird.Protocol
	for i := range 1000 {
		addr := fmt.Sprintf("10.1.%d.%d", i/250, i%250)
		expected = append(expected, checktest.Session("mesh", "n"+fmt.Sprint(i), addr, 1790))
		protocols = append(protocols, bird.Protocol{Name: "Mesh_x", Proto: "BGP", Neighbor: netip.MustParseAddr(addr)})
	}
	if r := comparePeers(expected, peersOf(protocols), true); r.Status != probe.OK {
		t.Errorf("a large mesh: %+v", r)
	}
	r := comparePeers(expected, peersOf(protocols[:5]), true)
	if r.Status != probe.Fail || !strings.HasSuffix(r.Saw, "and 992 more") ||
		len(r.Facts[probe.FactMissing].([]string)) != node.Listed {
		t.Errorf("without most of them: %+v", r)
	}
	odd := []bird.Protocol{
		{Name: "Local_Workload_10_244_0_5", Proto: "BGP", Neighbor: netip.MustParseAddr("10.244.0.5")},
		{Name: "dynbgp", Proto: "BGP"}, {Name: "kernel1", Proto: "Kernel"},
	}
	if peers := peersOf(odd); len(peers) > 0 {
		t.Errorf("%+v", peers)
	}
	link := peersOf([]bird.Protocol{{Name: "uplink", Proto: "BGP", Neighbor: netip.MustParseAddr("fe80::1%eth0")}})
	if r := comparePeers(nil, link, true); r.Status != probe.Info || !strings.Contains(r.Saw, "uplink") {
		t.Errorf("%+v", r)
	}
	if r := comparePeers(expected[:1], append(peersOf(protocols[:1]), link...), false); r.Status != probe.OK {
		t.Errorf("when not all that is expected is known nothing is too much: %+v", r)
	}
}
