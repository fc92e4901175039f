package checks

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/kernel"
)

// TestSwallowsLocally has routes of table local as kernels and guest agents make them: 66 is google-guest-agent's.
func TestSwallowsLocally(t *testing.T) {
	t.Parallel()
	const byKernel, byAgent = 2, 66
	block, own := netip.MustParsePrefix("10.244.1.0/26"), netip.MustParsePrefix("10.9.0.1/32")
	for name, c := range map[string]struct {
		route kernel.Route
		want  bool
	}{
		"an alias range":         {kernel.Route{To: block, Type: kernel.Local, Proto: byAgent, Table: 255}, true},
		"an address of its own":  {kernel.Route{To: own, Type: kernel.Local, Proto: byKernel, Table: 255}, false},
		"a block by the gateway": {kernel.Route{To: block, Proto: byAgent}, false},
	} {
		if got := swallowsLocally(c.route); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	m := misled{route: kernel.Route{To: block, Type: kernel.Local, Proto: byAgent, Table: 255},
		hits: []string{"default/a 10.244.1.2"}, kinds: []string{"pod"}}
	r := m.result()
	if !strings.Contains(r.Saw, "delivers to this node itself what is for default/a 10.244.1.2") || r.Facts[FactRouteType] != "local" {
		t.Error(r)
	}
}
