//go:build e2e

package ask

import (
	"net/netip"
	"testing"

	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestOverlap expects a report for an interface with a range equal to or inside another node's block, and no other.
func TestOverlap(t *testing.T) {
	if !nstest.Enter(t, `
		ip link set lo up
		ip link add eth0 type veth peer name far
		ip addr add 10.88.0.11/24 dev eth0
		ip link set eth0 up
		ip link set far up
		ip link add virbr0 type bridge
		ip addr add 10.244.1.65/26 dev virbr0
		ip link set virbr0 up
		ip link add small0 type bridge
		ip addr add 10.244.2.17/28 dev small0
		ip link set small0 up
		ip link add wide0 type bridge
		ip addr add 10.244.0.1/16 dev wide0
		ip link set wide0 up
		ip link add off0 type bridge
		ip addr add 10.244.3.1/26 dev off0
		ip link add one0 type bridge
		ip addr add 10.244.4.1/32 dev one0
		ip link set one0 up
		ip link add without0 type bridge
		ip addr add 10.244.5.1/26 dev without0 noprefixroute
		ip link set without0 up
		ip route add 10.244.5.0/26 via 10.88.0.12`) {
		return
	}
	links := must.Get(kernel.Links())(t)
	view := routeView{links: links}
	for cidr, want := range map[string]string{"10.244.1.64/26": "virbr0", "10.244.2.0/26": "small0", "10.244.3.0/26": "",
		"10.244.4.0/26": "", "10.244.5.0/26": "", "10.244.6.0/26": ""} {
		if got, text := view.overlap(ipamBlock{prefix: netip.MustParsePrefix(cidr), node: "b"}); got != want {
			t.Errorf("%s: %q %q", cidr, got, text)
		}
	}
}
