//go:build e2e

package checks

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealUplink pulls the cable, and wants that to be the only failure.
func TestRealUplink(t *testing.T) {
	if !nstest.Enter(t, furniture) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	own, peer := at(probe.KindSelf, "self", "10.9.0.1"), at(probe.KindNode, "peer", "10.9.0.2")
	block := probe.Target{Kind: probe.KindBlock, Name: "10.244.9.0/26", Node: "peer", Addr: peer.Addr}
	ask := func() []probe.Result {
		var got []probe.Result
		suite := []*probe.Check{NodeUplink, NodePing, BGPPort, RouteBlocks, DatastoreLatency}
		r := probe.Runner{Suite: suite, Host: h}
		plan := probe.Plan{Targets: []probe.Target{own, peer, block, backend("bird"),
			at(probe.KindDatastore, "service", "10.9.0.2")}}
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
	want(t, run(t, NodeUplink, h, own), "eth0 IPv4", probe.OK, "eth0 with 10.9.0.1 is up")
	want(t, run(t, NodeUplink, h, at(probe.KindSelf, "self", "10.66.0.1")), "", probe.Info, "no interface here")
	by := probe.Target{Kind: probe.KindCalico, Attrs: map[string]string{probe.AttrInternal: "10.9.0.1,fd09::1"}}
	want(t, run(t, NodeUplink, h, at(probe.KindSelf, "self", "10.66.0.1"), by), "eth0 IPv4", probe.OK, "10.9.0.1")

	for _, args := range [][]string{{"link", "add", "br-0a1b2c3d4e5f", "type", "bridge"},
		{"addr", "add", "172.18.0.1/16", "dev", "br-0a1b2c3d4e5f"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	// Packets leave the node all the same.
	want(t, run(t, NodeUplink, h, at(probe.KindSelf, "self", "172.18.0.1"), by), "br-0a1b2c3d4e5f IPv4", probe.Warn,
		"is switched off", "eth0, with 10.9.0.1, is up")
	want(t, run(t, NodeUplink, h, at(probe.KindSelf, "self", "172.18.0.1")), "br-0a1b2c3d4e5f IPv4", probe.Fail,
		"is switched off")

	for _, c := range []struct{ down, saw string }{{"far", "has no carrier"}, {"eth0", "is switched off"}} {
		if out, err := exec.Command("ip", "link", "set", c.down, "down").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		got := ask()
		want(t, got, "eth0 IPv4", probe.Fail, c.saw)
		for _, r := range got {
			if r.Check != "node-uplink" && r.Status != probe.Skip {
				t.Errorf("with a dead uplink: %+v", r)
			}
		}
	}
}

// TestRealPodUplink stands where a pod would, takes its way out and its cable.
func TestRealPodUplink(t *testing.T) {
	if !nstest.Enter(t, furniture) {
		return
	}
	pod := at(probe.KindLocal, "default/w", "10.9.0.1")
	ask := func(targets ...probe.Target) []probe.Result {
		var got []probe.Result
		r := probe.Runner{Suite: []*probe.Check{podUplink}, Host: &probe.Host{Root: "/", Proc: "/proc"}}
		r.Run(t.Context(), probe.Plan{From: "default/w", Checks: []string{"pod-uplink"}, Targets: targets},
			func(ev probe.Event) {
				if ev.Result != nil {
					got = append(got, *ev.Result)
				}
			})
		return got
	}
	do := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	const name = "IPv4"
	want(t, ask(pod), name, probe.Fail, "no default route")
	do("route", "add", "default", "via", "10.9.0.2")
	r := want(t, ask(pod), name, probe.OK, "eth0 is up", "with a default route")
	if r.From != "default/w" {
		t.Errorf("asked from %q", r.From)
	}
	want(t, ask(at(probe.KindLocal, "default/w", "10.9.0.77")), name, probe.Fail,
		"no interface in the pod has its address")
	listener, err := net.Listen("tcp", "127.0.0.1:15001")
	if err != nil {
		t.Fatal(err)
	}
	rules := exec.Command("nft", "-f", "-")
	rules.Stdin = strings.NewReader("table inet mesh { chain out { type nat hook output priority -100; " +
		"ip daddr != 127.0.0.0/8 meta l4proto tcp redirect to :15001\n}\n}\n")
	if out, err := rules.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, r := range ask(pod) {
		if r.Target == targetRedirect {
			t.Errorf("a proxy listens, and %+v", r)
		}
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	dead := want(t, ask(pod), targetRedirect, probe.Warn, "port 15001, where nothing listens", "inet mesh out")
	if port, known := dead.Facts.Num(FactPort); !known || port != 15001 {
		t.Errorf("%+v", dead)
	}
	do("link", "set", "far", "down")
	want(t, ask(pod), name, probe.Fail, "its other end, on the node, is down or gone")
}
