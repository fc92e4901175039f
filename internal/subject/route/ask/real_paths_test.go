//go:build e2e

package ask

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealRouteSpecial adds each type of route that captures a pod's packets, one of them as a cloud's guest agent
// does.
func TestRealRouteSpecial(t *testing.T) {
	if !nstest.Enter(t, checktest.TwoNodes+"ip route add local 10.244.1.0/26 dev eth0 table local proto 66\n") {
		return
	}
	pod := func(name, addr string) probe.Target { return checktest.At(probe.KindPod, name, addr) }
	got := checktest.Run(t, routeSpecialCheck, &probe.Host{}, pod("kept", "10.244.1.2"), pod("hole", "10.244.3.1"),
		pod("none", "10.244.4.1"), pod("prohibit", "10.244.5.1"), pod("well", "10.244.77.1"))
	checktest.Want(t, got, "local 10.244.1.0/26", probe.Fail, "locally delivers traffic for kept 10.244.1.2")
	checktest.Want(t, got, "blackhole 10.244.3.0/26", probe.Fail, "drops traffic to hole 10.244.3.1")
	checktest.Want(t, got, "unreachable 10.244.4.0/26", probe.Fail, "drops traffic to none")
	checktest.Want(t, got, "prohibit 10.244.5.0/26", probe.Fail, "drops traffic to prohibit")
	if len(got) != 4 {
		t.Errorf("%d results: %v", len(got), got)
	}
}

// TestRealRoutePods deletes a pod's route, then points it to another pod, then restores it.
func TestRealRoutePods(t *testing.T) {
	if !nstest.Enter(t, checktest.TwoNodes+`
ip link add caliab026e27ce4 type veth peer name eth7 netns far
ip link add cali961ed78da02 type veth peer name eth8 netns far
ip link set caliab026e27ce4 up
ip link set cali961ed78da02 up
ip -n far link set eth7 up
ip -n far link set eth8 up
ip route add 10.244.0.7 dev caliab026e27ce4
ip -6 route add fd00:244:7::7 dev caliab026e27ce4
ip route add 10.244.0.8 dev cali961ed78da02
ip route add blackhole 10.244.0.0/26
`) {
		return
	}
	pods := []probe.Target{checktest.At(probe.KindLocal, "default/workload-a", "10.244.0.7"),
		checktest.At(probe.KindLocal, "default/workload-a", "fd00:244:7::7")}
	ask := func() []probe.Result { return checktest.Run(t, routePodsCheck, &probe.Host{}, pods...) }
	if got := ask(); len(got) != 2 {
		t.Errorf("%+v", got)
	}
	checktest.Want(t, ask(), "IPv4", probe.OK, "1 of 1 pods")
	checktest.Want(t, ask(), "IPv6", probe.OK, "1 of 1 pods")
	checktest.Do(t, "ip route del 10.244.0.7", "ip route del 10.244.0.8")
	got := ask()
	checktest.Want(t, got, "IPv4", probe.Fail, "default/workload-a 10.244.0.7; its interface caliab026e27ce4 is up")
	checktest.Want(t, got, "IPv6", probe.OK, "1 of 1 pods")
	checktest.Want(t, got, "other pods", probe.Warn, "cali961ed78da02")
	checktest.Do(t, "ip route add 10.244.0.7 dev cali961ed78da02")
	checktest.Want(t, ask(), "IPv4", probe.Fail, "leads to cali961ed78da02, but its interface is caliab026e27ce4")
	checktest.Want(t, checktest.Run(t, routePodsCheck, &probe.Host{},
		checktest.At(probe.KindLocal, "default/other", "10.244.0.9")), "", probe.Skip,
		"has a Calico interface")
}
