//go:build e2e

package ask

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealServices creates kube-proxy's rules for a cluster IP and node ports, and then breaks them.
func TestRealServices(t *testing.T) {
	if !nstest.Enter(t, checktest.TwoNodes+`
ip route add 10.96.0.0/16 via 10.9.0.9
nft add table ip s
nft add chain ip s nat { type nat hook output priority -100 ; }
nft add rule ip s nat ip daddr 10.96.0.10 tcp dport 80 dnat to 10.244.1.2:8080
nft add rule ip s nat ip daddr 10.96.0.11 tcp dport 80 dnat to 10.244.1.3:8080
nft add rule ip s nat ip daddr 10.9.0.1 tcp dport 30080 dnat to 10.244.1.2:8080
nft add chain ip s out { type filter hook output priority 0 ; }
nft add rule ip s out ip daddr 10.96.0.12 reject
ip netns exec router nft add table ip t
ip netns exec router nft add chain ip t f { type filter hook forward priority 0 ; }
ip netns exec router nft add rule ip t f ip daddr { 10.244.1.3, 10.244.1.4 } tcp dport { 8080, 30080 } drop
`) {
		return
	}
	checktest.ListenFar(t, "10.244.1.2:8080")
	checktest.ListenFar(t, "10.9.1.2:30080")
	service := func(name, addr string) probe.Target {
		return checktest.Port(checktest.At(probe.KindService, name, addr), 80)
	}
	api := checktest.Port(checktest.At(probe.KindDatastore, "service", "10.96.0.1"), 443)
	endpoint := checktest.Port(checktest.At(probe.KindDatastore, "endpoint", "10.96.0.1"), 6443)
	got := checktest.Run(t, serviceClusterIPCheck, &probe.Host{}, api, endpoint, service("d/good", "10.96.0.10"),
		service("d/lost", "10.96.0.11"), service("d/empty", "10.96.0.12"), service("d/unrouted", "10.97.0.1"))
	checktest.Want(t, got, "default/kubernetes 10.96.0.1:443", probe.Fail, `"network unreachable" by ICMP from 10.9.0.9`)
	checktest.Want(t, got, "d/good 10.96.0.10:80", probe.OK, "connected to")
	checktest.Want(t, got, "d/lost 10.96.0.11:80", probe.Fail, "no answer from 10.96.0.11:80 within ")
	checktest.Want(t, got, "d/empty 10.96.0.12:80", probe.Fail, `"port unreachable" by ICMP`)
	checktest.Want(t, got, "d/unrouted 10.97.0.1:80", probe.Fail, "no route")
	if len(got) != 6 { // one result: it cannot enter pods
		t.Errorf("%d results: an endpoint is no service: %+v", len(got), got)
	}
	checktest.ListenFar(t, "10.244.1.2:443")
	checktest.Do(t, "nft add rule ip s nat ip daddr 10.96.0.1 tcp dport 443 dnat to 10.244.1.2:443")
	checktest.Want(t, checktest.Run(t, serviceClusterIPCheck, &probe.Host{}, api), "default/kubernetes 10.96.0.1:443", probe.OK, "connected to")

	nodePort := func(node, addr string) probe.Target {
		t := checktest.Port(checktest.At(probe.KindNodePort, "d/web", addr), 30080)
		t.Node = node
		return t
	}
	// As in the incident: this node and the one with the pod answer, another does not.
	got = checktest.Run(t, serviceNodePortCheck, &probe.Host{}, nodePort("a", "10.9.0.1"), nodePort("b", "10.9.1.2"),
		nodePort("c", "10.244.1.4"), nodePort("d", "10.9.1.9"))
	checktest.Want(t, got, "d/web a 10.9.0.1:30080", probe.OK, "connected to")
	checktest.Want(t, got, "d/web b 10.9.1.2:30080", probe.OK, "connected to")
	checktest.Want(t, got, "d/web c 10.244.1.4:30080", probe.Fail, "no answer from 10.244.1.4:30080")
	checktest.Want(t, got, "d/web d 10.9.1.9:30080", probe.Fail, "refused")
	checktest.Do(t, "nft delete table ip s")
	got = checktest.Run(t, serviceNodePortCheck, &probe.Host{}, nodePort("a", "10.9.0.1"), nodePort("d", "10.9.1.9"))
	checktest.Want(t, got, "d/web a 10.9.0.1:30080", probe.Info, "as at every node")
	checktest.Want(t, got, "d/web d 10.9.1.9:30080", probe.Info, "as at every node")
	checktest.Want(t, checktest.Run(t, serviceNodePortCheck, &probe.Host{}, nodePort("d", "10.9.1.9")),
		"d/web d 10.9.1.9:30080", probe.Fail,
		"refused")
}
