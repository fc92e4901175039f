//go:build e2e

package ask

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealAutodetect adds the NIC of one incident and the bridge of another to a node. The result must name each as
// Calico's choice.
func TestRealAutodetect(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture+`
ip link add ens224 type veth peer name far2
ip addr add 10.0.0.66/24 dev ens224
`) {
		return
	}
	calico := func(version, ip6, method string) probe.Target {
		return probe.Target{Kind: probe.KindCalico, Name: version, Attrs: map[string]string{
			probe.AttrIP: "autodetect", probe.AttrIP6: ip6, probe.AttrMethod: method,
			probe.AttrInternal: "10.9.0.1,fd09::1",
		}}
	}
	own, peer := checktest.At(probe.KindSelf, "self", "10.9.0.1"), checktest.At(probe.KindNode, "peer", "10.9.0.2")
	ask := func(targets ...probe.Target) []probe.Result {
		return checktest.Run(t, ipAutodetectCheck, &probe.Host{}, targets...)
	}
	r := checktest.Want(t, ask(calico("v3.9.5", "none", ""), own, peer), "IPv4", probe.Fail,
		"first-found picks 10.0.0.66 on ens224 (veth), but 10.9.0.1 is registered", "next start",
		"0 of 1 other nodes are reached through ens224")
	if slices.ContainsFunc(r.Lines, func(l string) bool { return strings.HasPrefix(l, "cidr=") }) {
		t.Errorf("v3.9 has no cidr: %v", r.Lines)
	}
	r = checktest.Want(t, ask(calico("v3.32.1", "none", "first-found"), own, peer), "IPv4", probe.Fail, "within a minute")
	for _, line := range []string{"can-reach=10.9.0.2 would pick 10.9.0.1 on eth0",
		"cidr=10.9.0.0/24 would pick 10.9.0.1 on eth0",
		"interface=^eth0$ would pick 10.9.0.1 on eth0 (veth); 1 of 1 other nodes are reached through eth0"} {
		if !slices.ContainsFunc(r.Lines, func(l string) bool { return strings.HasPrefix(l, line) }) {
			t.Errorf("the evidence lacks %q: %v", line, r.Lines)
		}
	}
	got := ask(calico("v3.32.1", "autodetect", "kubernetes-internal-ip"), own, peer,
		checktest.At(probe.KindSelf, "self", "fd09::1"))
	checktest.Want(t, got, "IPv4", probe.OK, "kubernetes-internal-ip picks 10.9.0.1 on eth0")
	checktest.Want(t, got, "IPv6", probe.OK, "first-found picks fd09::1 on eth0")
	checktest.Want(t, ask(calico("v3.32.1", "none", "can-reach=10.9.0.2"), own, peer), "IPv4", probe.OK,
		"can-reach=10.9.0.2 picks 10.9.0.1")
	checktest.Want(t, ask(calico("v3.15.0", "none", "kubernetes-internal-ip"), own, peer), "IPv4", probe.Fail,
		"lacks the method",
		"v3.22")
	checktest.Want(t, ask(calico("v3.32.1", "none", "nonsense"), own, peer), "IPv4", probe.Fail,
		"is not an autodetection method")
	checktest.Want(t, ask(calico("v3.32.1", "none", "interface=eth7"), own, peer), "IPv4", probe.Warn,
		"finds no IPv4 address",
		"Calico keeps the registered 10.9.0.1")
	checktest.Want(t, ask(calico("v3.32.1", "", ""), own), "IPv6", probe.Skip, "not to detect")

	for _, args := range [][]string{{"link", "del", "ens224"}, {"link", "add", "br-0a1b2c3d4e5f", "type", "bridge"},
		{"addr", "add", "172.18.0.1/16", "dev", "br-0a1b2c3d4e5f"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	checktest.Want(t, ask(calico("v3.24.1", "none", ""), own, peer), "IPv4", probe.Fail,
		"first-found picks 172.18.0.1 on br-0a1b2c3d4e5f (bridge)")
	checktest.Want(t, ask(calico("v3.25.0", "none", ""), own, peer), "IPv4", probe.OK, "first-found picks 10.9.0.1 on eth0")
	r = checktest.Want(t, ask(calico("v3.24.1", "none", ""), checktest.At(probe.KindSelf, "self", "172.18.0.1"), peer),
		"IPv4",
		probe.Info, "it is not the node's InternalIP")
	if r.Facts.Str(link.FactKeptOn) != "br-0a1b2c3d4e5f" || r.Facts.Str(link.FactKeptOnKind) != "bridge" {
		t.Errorf("holder: %v", r.Facts)
	}
	r = checktest.Want(t, ask(calico("v3.25.0", "none", ""), checktest.At(probe.KindSelf, "self", "10.66.0.1"), peer),
		"IPv4", probe.Fail,
		"but 10.66.0.1 is registered")
	if on, found := r.Facts[link.FactKeptOn]; !found || on != "" {
		t.Errorf("no holder: %v", r.Facts)
	}
}

// TestRealPings distinguishes loss, a missing route, silence and the node's own firewall.
func TestRealPings(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture+`
nft add table inet t
nft add chain inet t out { type filter hook output priority 0 ; }
nft add rule inet t out ip daddr 127.0.0.9 drop
nft add rule inet t out ip daddr 127.0.0.5 icmp type echo-request numgen inc mod 2 == 0 drop
nft add chain inet t in { type filter hook input priority 0 ; }
nft add rule inet t in ip daddr 127.0.0.8 drop
nft add rule inet t in ip daddr 127.0.0.4 icmp type echo-request drop
nft add rule inet t in ip daddr 127.0.0.7 icmp type echo-request numgen inc mod 2 == 0 drop
nft add rule inet t in ip daddr 127.0.0.6 icmp type echo-request reject with icmp type admin-prohibited
`) {
		return
	}
	got := checktest.Run(t, nodePingCheck, &probe.Host{},
		checktest.At(probe.KindNode, "good", "127.0.0.1"), checktest.At(probe.KindNode, "good6", "::1"),
		checktest.At(probe.KindNode, "firewall", "127.0.0.9"),
		checktest.At(probe.KindNode, "silent", "127.0.0.8"), checktest.At(probe.KindNode, "pingless", "127.0.0.4"),
		checktest.At(probe.KindNode, "lossy", "127.0.0.7"),
		checktest.At(probe.KindNode, "refusing", "127.0.0.6"),
		checktest.At(probe.KindNode, "nowhere", "172.18.0.1"), checktest.At(probe.KindNode, "hole", "10.244.3.2"),
		checktest.At(probe.KindNode, "choosy", "127.0.0.5"), checktest.At(probe.KindNode, "nowhere6", "fd77::1"))
	checktest.Want(t, got, "good 127.0.0.1", probe.OK, "5 of 5")
	checktest.Want(t, got, "good6 ::1", probe.OK, "5 of 5")
	checktest.Want(t, got, "firewall 127.0.0.9", probe.Fail, "rejected locally")
	checktest.Want(t, got, "silent 127.0.0.8", probe.Fail, "none of 5")
	checktest.Want(t, got, "pingless 127.0.0.4", probe.Warn, "none of 5", "TCP 10250 answers there") // it refuses
	checktest.Want(t, got, "refusing 127.0.0.6", probe.Fail, "destination unreachable from", "code 13")
	checktest.Want(t, got, "nowhere 172.18.0.1", probe.Fail, "net-unreachable")
	checktest.Want(t, got, "hole 10.244.3.2", probe.Fail, "blackhole")
	r := checktest.Want(t, got, "choosy 127.0.0.5", probe.Warn, "of 5 packets", "rejected locally")
	if n, _ := r.Facts.Num(probe.FactReceived); n < 2 || n > 3 {
		t.Errorf("every other packet was refused: %v", r.Facts)
	}
	checktest.Want(t, got, "nowhere6 fd77::1", probe.Fail, "net-unreachable")
	r = checktest.Want(t, got, "lossy 127.0.0.7", probe.Fail, "of 55 packets")
	if n, _ := r.Facts.Num(probe.FactReceived); n < 26 || n > 29 {
		t.Errorf("every other packet was dropped: %v", r.Facts)
	}
}
