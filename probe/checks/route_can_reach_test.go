package checks

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

func TestRouted(t *testing.T) {
	t.Parallel()
	way := hop{device: "eth0", source: netip.MustParseAddr("172.17.73.65"), match: netip.MustParsePrefix("0.0.0.0/0"),
		proto: "static"}
	pod := probe.Target{Kind: probe.KindPod, Addr: netip.MustParseAddr("10.244.1.2")}
	peer := probe.Target{Kind: probe.KindNode, Addr: netip.MustParseAddr("172.17.73.66")}
	if r := routed(pod, way, []probe.Target{self("10.0.0.66")}); r.Status != probe.Info ||
		!strings.Contains(r.Saw, "only the default route") {
		t.Errorf("%+v", r)
	}
	if r := routed(peer, way, []probe.Target{self("10.0.0.66")}); r.Status != probe.Info ||
		!strings.Contains(r.Saw, "Calico registered 10.0.0.66") {
		t.Errorf("the wrong NIC: %+v", r)
	}
	if r := routed(peer, way, []probe.Target{self("172.17.73.65"), self("fd00::1")}); r.Status != probe.OK {
		t.Errorf("%+v", r)
	}
}
