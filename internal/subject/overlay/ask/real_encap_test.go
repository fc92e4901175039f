//go:build e2e

package ask

import (
	"context"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealEncap sends tokens from one namespace to another over a veth pair. It drops them in transit, and by the
// firewalls of the receiver and the sender.
func TestRealEncap(t *testing.T) {
	if !nstest.Enter(t, `
mount --make-rprivate /
mount -t tmpfs tmpfs /run
ip netns add far
ip link add eth0 type veth peer name eth0 netns far
ip addr add 10.9.0.1/24 dev eth0
ip addr add fd09::1/64 dev eth0 nodad
ip link set lo up
ip link set eth0 up
ip -n far addr add 10.9.0.2/24 dev eth0
ip -n far addr add fd09::2/64 dev eth0 nodad
ip -n far link set lo up
ip -n far link set eth0 up
nft add table inet t
nft add chain inet t in { type filter hook input priority 0 ; }
`) {
		return
	}
	command := func(line string) {
		t.Helper()
		args := strings.Fields(line)
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	ways := func(role, node, addr string) []probe.Target {
		var out []probe.Target
		for name, port := range map[string]int{"VXLAN": 4789, "WireGuard": 51820, "IPIP": 0, "BGP": 1790} {
			a := netip.MustParseAddr(addr)
			if name == "BGP" && role == probe.RoleListen || name == "IPIP" && a.Is6() {
				continue
			}
			out = append(out, probe.Target{Kind: probe.KindEncap, Name: name, Node: node, Addr: a, Port: port,
				Attrs: map[string]string{probe.AttrRole: role, probe.AttrToken: "cafe0001", probe.AttrUsed: "true"}})
		}
		return out
	}
	proof := func() (heard, sent []probe.Result) {
		listening := make(chan bool)
		ended := make(chan []probe.Result)
		listen := slices.Concat(ways(probe.RoleListen, "far", "10.9.0.2"), ways(probe.RoleListen, "far", "fd09::2"))
		go func() {
			var got []probe.Result
			r := probe.Runner{Suite: []*probe.Check{encapProofCheck}, Host: &probe.Host{Node: "near"}}
			r.Run(t.Context(), probe.Plan{Checks: []string{"encap-proof"},
				Targets: append(listen, checktest.Self("10.9.0.1"), checktest.Self("fd09::1"))}, func(ev probe.Event) {
				switch {
				case ev.Result == nil:
				case ev.Result.Facts[overlay.FactReady] == true:
					listening <- true
				default:
					got = append(got, *ev.Result)
				}
			})
			ended <- got
		}()
		<-listening
		sent = inNamespace(t, "far", func(ctx context.Context) []probe.Result {
			var got []probe.Result
			for addr, own := range map[string]string{"10.9.0.1": "10.9.0.2", "fd09::1": "fd09::2"} {
				for _, w := range ways(probe.RoleSend, "near", addr) {
					got = append(got, send(ctx, "far", netip.MustParseAddr(own), w))
				}
			}
			return got
		})
		return <-ended, sent
	}
	l := must.Get(net.Listen("tcp", "10.9.0.1:1790"))(t)
	defer l.Close()

	heard, sent := proof()
	for _, name := range []string{"far to near VXLAN IPv4", "far to near WireGuard IPv4", "far to near IPIP IPv4",
		"far to near VXLAN IPv6"} {
		checktest.Want(t, heard, name, probe.OK, "arrive")
	}
	for _, r := range heard {
		if r.Facts.Str(overlay.FactReceiver) != "near" {
			t.Errorf("%s: received by %q", r.Target, r.Facts.Str(overlay.FactReceiver))
		}
	}
	checktest.Want(t, sent, "far to near BGP IPv4", probe.OK, "connected from")
	checktest.Want(t, sent, "far to near BGP IPv6", probe.Fail, "refused")

	command("nft add rule inet t in udp dport 4789 drop")
	command("nft add rule inet t in ip protocol 4 drop")
	command("ip netns exec far nft add table inet t")
	command("ip netns exec far nft add chain inet t out { type filter hook output priority 0 ; }")
	command("ip netns exec far nft add rule inet t out udp dport 51820 drop")
	heard, sent = proof()
	checktest.Want(t, heard, "far to near VXLAN IPv4", probe.Fail, "own firewall drops them")
	checktest.Want(t, heard, "far to near VXLAN IPv6", probe.Fail, "own firewall drops them")
	checktest.Want(t, heard, "far to near IPIP IPv4", probe.Fail, "own firewall drops them")
	checktest.Want(t, heard, "far to near WireGuard IPv4", probe.Fail, "none arrived")
	checktest.Want(t, sent, "far to near WireGuard IPv4", probe.Fail, "own firewall rejects them")

	command("nft flush chain inet t in")
	command("nft add table netdev w")
	command("nft add chain netdev w in { type filter hook ingress device eth0 priority 0 ; }")
	command("nft add rule netdev w in ip protocol 4 drop")
	heard, _ = proof()
	checktest.Want(t, heard, "far to near VXLAN IPv4", probe.OK, "arrive")
	checktest.Want(t, heard, "far to near IPIP IPv4", probe.Fail, "own firewall drops them")
	command("nft delete table netdev w")
	command("ip netns exec far nft add table netdev w")
	command("ip netns exec far nft add chain netdev w out { type filter hook egress device eth0 priority 0 ; }")
	command("ip netns exec far nft add rule netdev w out udp dport 4789 drop")
	heard, _ = proof()
	checktest.Want(t, heard, "far to near VXLAN IPv4", probe.Fail, "lost between the nodes")
	checktest.Want(t, heard, "far to near IPIP IPv4", probe.OK, "arrive")
	checktest.Want(t, checktest.Run(t, encapProofCheck, &probe.Host{}), "", probe.Skip, "second probe")
}

// inNamespace calls f on a thread in a named network namespace. f may dial only literal addresses: Go resolves names on
// other threads.
func inNamespace(t *testing.T, name string, f func(context.Context) []probe.Result) []probe.Result {
	t.Helper()
	ns := must.Get(netns.GetFromName(name))(t)
	defer ns.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan []probe.Result)
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread exits with the goroutine
		if err := netns.Set(ns); err != nil {
			failed <- err
		}
		done <- f(ctx)
	}()
	got := <-done
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
	return got
}
