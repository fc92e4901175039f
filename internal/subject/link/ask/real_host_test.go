//go:build e2e

package ask

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealReversePath receives a packet on an interface that a reply would not use.
func TestRealReversePath(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	own := checktest.At(probe.KindSelf, "self", "10.9.0.1")
	set := func(name, text string) {
		t.Helper()
		must.Do(t, os.WriteFile("/proc/sys/net/ipv4/conf/"+name+"/rp_filter", []byte(text), 0o600))
	}
	set("all", "0")
	set("eth0", "0")
	ask := func() []probe.Result { return checktest.Run(t, nodeSysctlCheck, h, own) }
	checktest.Want(t, ask(), "rp_filter", probe.OK, "all 0, eth0 0")
	stray := func() {
		t.Helper()
		near := must.Get(net.InterfaceByName("eth0"))(t)
		far := must.Get(net.InterfaceByName("far"))(t)
		// UDP from 203.0.113.9, which has no route, to 10.9.0.1.
		packet := []byte{0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 203, 0, 113, 9, 10, 9, 0, 1, 0, 9, 0, 9, 0, 8, 0, 0}
		sum := 0
		for i := 0; i < 20; i += 2 {
			sum += int(packet[i])<<8 | int(packet[i+1])
		}
		sum = ^(sum&0xffff + sum>>16)
		packet[10], packet[11] = byte(sum>>8), byte(sum)
		frame := slices.Concat(near.HardwareAddr, far.HardwareAddr, []byte{8, 0}, packet)
		s := must.Get(syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW, 0))(t)
		defer syscall.Close(s)
		must.Do(t, syscall.Sendto(s, frame, 0, &syscall.SockaddrLinklayer{Ifindex: far.Index}))
	}
	set("eth0", "1")
	checktest.Eventually(t, func() bool {
		stray()
		return slices.ContainsFunc(ask(), func(r probe.Result) bool {
			return r.Target == "rp_filter" && r.Status == probe.Info &&
				strings.Contains(r.Saw, "all 0, eth0 1; the kernel has dropped")
		})
	})
	set("all", "2")
	checktest.Want(t, ask(), "rp_filter", probe.OK, "all 2, eth0 2")
	checktest.Want(t, checktest.Run(t, nodeSysctlCheck, h, own, probe.Target{Kind: probe.KindCalico, Name: "v3.11.3"}),
		"rp_filter",
		probe.Warn, "does not start")
}

// TestRealNeighbour has a neighbour that first does not answer, and then does.
func TestRealNeighbour(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	peer := checktest.At(probe.KindNode, "peer", "10.9.0.2")
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	checktest.Want(t, checktest.Run(t, nodePingCheck, h, peer), "peer 10.9.0.2", probe.Fail, "none of 5")
	checktest.Eventually(t, func() bool {
		table, err := neighbours(4)
		return err == nil && stateOf(table, peer.Addr) == "failed"
	})
	checktest.Want(t, checktest.Run(t, nodeNeighboursCheck, h, peer), "peer 10.9.0.2", probe.Fail, "no answer to ARP or NDP on the link")
	checktest.Eventually(t, func() bool {
		table, err := neighbours(4)
		return err == nil && stateOf(table, peer.Addr) == "failed"
	})
	ip("netns", "add", "probe-neighbour")
	defer ip("netns", "del", "probe-neighbour")
	ip("link", "set", "far", "netns", "probe-neighbour")
	ip("-n", "probe-neighbour", "addr", "add", "10.9.0.2/24", "dev", "far")
	ip("-n", "probe-neighbour", "link", "set", "far", "up")
	ip("neigh", "replace", "10.9.0.2", "dev", "eth0", "nud", "failed") // setting the link down would flush the entry
	checktest.Want(t, checktest.Run(t, nodeNeighboursCheck, h, peer), "peer 10.9.0.2", probe.OK, "answers ARP or NDP now")
}
