//go:build e2e

package ask

import (
	"os/exec"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealUplink disconnects the uplink, and expects that to be the only failure.
func TestRealUplink(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	own, peer := checktest.At(probe.KindSelf, "self", "10.9.0.1"), checktest.At(probe.KindNode, "peer", "10.9.0.2")
	block := probe.Target{Kind: probe.KindBlock, Name: "10.244.9.0/26", Node: "peer", Addr: peer.Addr}
	ask := func() []probe.Result {
		var got []probe.Result
		suite := []*probe.Check{runnable(link.NodeUplink), runnable(link.NodePing), runnable(bgp.BGPPort),
			runnable(route.RouteBlocks), runnable(datastore.DatastoreLatency)}
		r := probe.Runner{Suite: suite, Host: h}
		plan := probe.Plan{Targets: []probe.Target{own, peer, block, checktest.Backend("bird"),
			checktest.At(probe.KindDatastore, "service", "10.9.0.2")}}
		for _, c := range suite {
			plan.Checks = append(plan.Checks, c.ID)
		}
		r.Run(t.Context(), plan, func(ev probe.Event) {
			if ev.Result != nil {
				got = append(got, *ev.Result)
			}
		})
		return got
	}
	checktest.Want(t, checktest.Run(t, runnable(link.NodeUplink), h, own), "eth0 IPv4", probe.OK,
		"eth0 with 10.9.0.1 is up")
	checktest.Want(t, checktest.Run(t, runnable(link.NodeUplink), h, checktest.At(probe.KindSelf, "self", "10.66.0.1")),
		"", probe.Info, "no interface has a known address")
	by := probe.Target{Kind: probe.KindCalico, Attrs: map[string]string{probe.AttrInternal: "10.9.0.1,fd09::1"}}
	checktest.Want(t, checktest.Run(t, runnable(link.NodeUplink), h, checktest.At(probe.KindSelf, "self", "10.66.0.1"),
		by), "eth0 IPv4", probe.OK, "10.9.0.1")

	for _, args := range [][]string{{"link", "add", "br-0a1b2c3d4e5f", "type", "bridge"},
		{"addr", "add", "172.18.0.1/16", "dev", "br-0a1b2c3d4e5f"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	// Packets still leave the node.
	checktest.Want(t, checktest.Run(t, runnable(link.NodeUplink), h, checktest.At(probe.KindSelf, "self", "172.18.0.1"),
		by), "br-0a1b2c3d4e5f IPv4", probe.Warn,
		"is administratively down", "eth0, with 10.9.0.1, is up")
	checktest.Want(t, checktest.Run(t, runnable(link.NodeUplink), h, checktest.At(probe.KindSelf, "self", "172.18.0.1")),
		"br-0a1b2c3d4e5f IPv4", probe.Fail,
		"is administratively down")

	for _, c := range []struct{ down, saw string }{{"far", "has no carrier"}, {"eth0", "is administratively down"}} {
		if out, err := exec.Command("ip", "link", "set", c.down, "down").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		got := ask()
		checktest.Want(t, got, "eth0 IPv4", probe.Fail, c.saw)
		for _, r := range got {
			if r.Check != "node-uplink" && r.Status != probe.Skip {
				t.Errorf("with a dead uplink: %+v", r)
			}
		}
	}
}
