//go:build e2e

package ask

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealPodUplink runs in a pod's place: without a default route, behind a dead proxy, and without a carrier.
func TestRealPodUplink(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture) {
		return
	}
	pod := checktest.At(probe.KindLocal, "default/w", "10.9.0.1")
	ask := func(targets ...probe.Target) []probe.Result {
		var got []probe.Result
		r := probe.Runner{Suite: []*probe.Check{podUplinkCheck}, Host: &probe.Host{Root: "/", Proc: "/proc"}}
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
	checktest.Want(t, ask(pod), name, probe.Fail, "no default route")
	do("route", "add", "default", "via", "10.9.0.2")
	r := checktest.Want(t, ask(pod), name, probe.OK, "eth0 is up", "with a default route")
	if r.From != "default/w" {
		t.Errorf("from %q", r.From)
	}
	checktest.Want(t, ask(checktest.At(probe.KindLocal, "default/w", "10.9.0.77")), name, probe.Fail,
		"no interface in the pod has its address")
	listener := must.Get(net.Listen("tcp", "127.0.0.1:15001"))(t)
	rules := exec.Command("nft", "-f", "-")
	rules.Stdin = strings.NewReader("table inet mesh { chain out { type nat hook output priority -100; " +
		"ip daddr != 127.0.0.0/8 meta l4proto tcp redirect to :15001\n}\n}\n")
	if out, err := rules.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, r := range ask(pod) {
		if r.Target == targetRedirect {
			t.Errorf("a proxy listens, but: %+v", r)
		}
	}
	must.Do(t, listener.Close())
	dead := checktest.Want(t, ask(pod), targetRedirect, probe.Warn, "port 15001, where nothing listens", "inet mesh out")
	if port, known := dead.Facts.Num(probe.FactPort); !known || port != 15001 {
		t.Errorf("%+v", dead)
	}
	do("link", "set", "far", "down")
	checktest.Want(t, ask(pod), name, probe.Fail, "its other end, on the node, is down or gone")
}
