//go:build e2e

package ask

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealTwins adds two machines with duplicate addresses to the link.
func TestRealTwins(t *testing.T) {
	if !nstest.Enter(t, `
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir /run/netns
ip link add link0 type bridge
ip link set link0 up
ip netns add other
ip netns add twin
ip netns add mine
ip link add eth0 type veth peer name p0
ip link add e1 type veth peer name p1
ip link add e2 type veth peer name p2
ip link add e3 type veth peer name p3
ip link set e1 netns other
ip link set e2 netns twin
ip link set e3 netns mine
ip link set p0 master link0 up
ip link set p1 master link0 up
ip link set p2 master link0 up
ip link set p3 master link0 up
ip addr add 10.9.0.1/24 dev eth0
ip link set eth0 up
`) {
		return
	}
	add := func(ns, dev, addr string) {
		checktest.Do(t, "ip -n "+ns+" addr add "+addr+" dev "+dev)
		checktest.Do(t, "ip -n "+ns+" link set "+dev+" up")
	}
	add("other", "e1", "10.9.0.2/24")
	self, other := checktest.At(probe.KindSelf, "self", "10.9.0.1"), checktest.At(probe.KindNode, "other", "10.9.0.2")
	ask := func() []probe.Result {
		return checktest.Run(t, nodeNeighboursCheck, &probe.Host{Root: "/", Proc: "/proc"}, self, other)
	}
	for _, r := range ask() {
		if r.Facts[link.FactTwins] != nil {
			t.Errorf("each address is one machine's: %v", r)
		}
	}
	add("twin", "e2", "10.9.0.2/24")
	checktest.Want(t, ask(), "other 10.9.0.2 answers", probe.Info, "2 MACs answer ARP for this address: ")
	add("mine", "e3", "10.9.0.1/24")
	checktest.Want(t, ask(), "own 10.9.0.1", probe.Fail, "another machine answers ARP for the node's own address 10.9.0.1: MAC ")
}
