//go:build e2e

package ask

import (
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealBlocksInBIRD has a BIRD in a graceful restart, which has routes but does not write them to the kernel. It
// checks blocks without a route in the kernel.
func TestRealBlocksInBIRD(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture+"ip addr add 10.9.0.2/32 dev lo\n") {
		return
	}
	far, h := checktest.Node(t, map[string]string{"run/calico/x": ""}),
		checktest.Node(t, map[string]string{"run/calico/x": ""})
	mute := strings.Replace(checktest.MeshOf("10.9.0.2", "10.9.0.1"), "import all; export all; graceful", "import all; export none; graceful", 1) // it shares this kernel
	checktest.BirdIn(t, far, mute+"protocol static static1 { route 10.244.99.0/26 blackhole; }\n")
	checktest.BirdIn(t, h, checktest.MeshOf("10.9.0.1", "10.9.0.2", "10.9.0.3"), "-R")
	checktest.Established(t, runnable(bgp.BGPSession), h, "10.9.0.2")
	known, unknown := checktest.BlockOf("10.244.99.0/26", "b", "10.9.0.2"),
		checktest.BlockOf("10.244.97.0/26", "c", "10.9.0.3")
	ask := func(targets ...probe.Target) []probe.Result {
		return checktest.Run(t, runnable(route.RouteBlocks), h, targets...)
	}
	has := func(r probe.Result) bool { return r.Facts[route.FactInBIRD] != nil }
	checktest.Eventually(t, func() bool { return slices.ContainsFunc(ask(known), has) })
	checktest.Want(t, ask(known), "IPv4", probe.Fail,
		"1 of 1 blocks of other nodes have no route: 10.244.99.0/26 of b; BIRD has 10.244.99.0/26 from Mesh_10_9_0_2 but has not written it to the kernel")
	checktest.Want(t, ask(unknown), "IPv4", probe.Fail, "10.244.97.0/26 of c; BIRD has no route either")
	checktest.Want(t, ask(known, unknown), "IPv4", probe.Fail, "2 of 2", "BIRD has 10.244.99.0/26 from Mesh_10_9_0_2",
		", and no route to 1 others")
	vxlan := probe.Target{Kind: probe.KindPool, Name: "10.244.0.0/16",
		Attrs: map[string]string{probe.AttrVXLAN: "Always"}}
	if r := checktest.Want(t, ask(known, vxlan), "IPv4", probe.Fail, "10.244.99.0/26 of b"); has(r) {
		t.Errorf("Felix creates this route, not BIRD: %+v", r)
	}
}
