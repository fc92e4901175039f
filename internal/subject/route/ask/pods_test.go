package ask

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// TestInterfaceOf compares with a name recorded from Calico v3.32.1.
func TestInterfaceOf(t *testing.T) {
	t.Parallel()
	if got := interfaceOf("default/workload-a"); got != "caliab026e27ce4" {
		t.Error(got)
	}
}

// TestJudgePods has the recorded tables of a node with Calico: complete, and without one route.
func TestJudgePods(t *testing.T) {
	t.Parallel()
	pod := func(name, addr string) probe.Target {
		return probe.Target{Kind: probe.KindLocal, Name: name, Addr: netip.MustParseAddr(addr)}
	}
	a := pod("default/workload-a", "10.244.174.129")
	b := pod("kube-system/calico-kube-controllers-58f68d56d9-lx4qg", "10.244.174.128")
	links := podLinks{
		up:     map[string]bool{"caliab026e27ce4": true, "cali961ed78da02": true},
		routes: map[netip.Addr][]string{b.Addr: {"cali961ed78da02"}},
	}
	r, ok := links.judge([]probe.Target{a, b})
	const want = "1 of 2 pods on this node have no route: default/workload-a 10.244.174.129; its interface caliab026e27ce4 is up"
	if !ok || r.Status != probe.Fail || r.Saw != want {
		t.Errorf("%+v", r)
	}
	if list := r.Facts[route.FactNoRoute]; !reflect.DeepEqual(list, []string{"default/workload-a 10.244.174.129"}) {
		t.Errorf("%v", list)
	}
	if got := links.bare(); !reflect.DeepEqual(got, []string{"caliab026e27ce4"}) {
		t.Errorf("without a route: %v", got)
	}
	links.up[interfaceOf(a.Name)], links.off = false, map[string]bool{interfaceOf(a.Name): true} // ip link set down
	r, _ = links.judge([]probe.Target{a, b})
	if !strings.Contains(r.Saw, "interface caliab026e27ce4 is down") || len(r.Facts[route.FactDown].([]string)) != 1 {
		t.Errorf("set down: %+v", r)
	}
	links.off = nil // the pod's end is down, and Felix removes the route
	r, _ = links.judge([]probe.Target{a, b})
	if !strings.Contains(r.Saw, "has no carrier") || len(r.Facts[route.FactDown].([]string)) != 0 {
		t.Errorf("without a carrier: %+v", r)
	}
	links.up[interfaceOf(a.Name)] = true
	links.routes[a.Addr] = []string{"cali961ed78da02"}
	if r, _ = links.judge([]probe.Target{a}); r.Status != probe.Fail || len(r.Facts[route.FactWrong].([]string)) != 1 {
		t.Errorf("astray: %+v", r)
	}
	links.routes[a.Addr] = []string{"caliab026e27ce4"}
	if r, _ = links.judge([]probe.Target{a, b}); r.Status != probe.OK || len(links.bare()) != 0 {
		t.Errorf("healthy: %+v, %v", r, links.bare())
	}
	// The check ignores pods of other plugins, and pods that were just deleted.
	if _, ok = links.judge([]probe.Target{pod("default/other", "10.9.0.7")}); ok {
		t.Error("judged a pod without a Calico interface")
	}
}
