package ask

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/node"
)

func TestJudgeRoute(t *testing.T) {
	t.Parallel()
	way := node.Hop{Device: "eth0", Source: netip.MustParseAddr("172.17.73.65"), Match: netip.MustParsePrefix("0.0.0.0/0"),
		Proto: "static"}
	pod := probe.Target{Kind: probe.KindPod, Addr: netip.MustParseAddr("10.244.1.2")}
	peer := probe.Target{Kind: probe.KindNode, Addr: netip.MustParseAddr("172.17.73.66")}
	if r := judgeRoute(pod, way, []probe.Target{checktest.Self("10.0.0.66")}); r.Status != probe.Info ||
		!strings.Contains(r.Saw, "only the default route") {
		t.Errorf("%+v", r)
	}
	if r := judgeRoute(peer, way, []probe.Target{checktest.Self("10.0.0.66")}); r.Status != probe.Info ||
		!strings.Contains(r.Saw, "Calico registered 10.0.0.66") {
		t.Errorf("the wrong NIC: %+v", r)
	}
	if r := judgeRoute(peer, way, []probe.Target{checktest.Self("172.17.73.65"),
		checktest.Self("fd00::1")}); r.Status != probe.OK {
		t.Errorf("%+v", r)
	}
}
