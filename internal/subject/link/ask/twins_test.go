package ask

import (
	"net/netip"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestTwinsBehindProxy expects no twin if one MAC answers for all addresses, as a cloud's virtual switch does, and a
// twin if a machine answers only for this node's address.
func TestTwinsBehindProxy(t *testing.T) {
	t.Parallel()
	const own, peer, proxy, twin = "52:54:00:00:00:01", "52:54:00:00:00:02", "12:34:56:78:9a:bc", "52:54:00:00:00:09"
	self := probe.Target{Kind: probe.KindSelf, Name: "self", Addr: netip.MustParseAddr("10.0.0.1")}
	other := probe.Target{Kind: probe.KindNode, Name: "b", Addr: netip.MustParseAddr("10.0.0.2")}
	for name, c := range map[string]struct {
		heard []string // for the own address; the proxy answers for the other one too
		want  int
	}{"a proxy": {[]string{proxy}, 0}, "a twin beside it": {[]string{proxy, twin}, 1}, "silence": {nil, 0}} {
		heard := map[netip.Addr][]string{self.Addr: c.heard, other.Addr: {peer, proxy}}
		if c.heard == nil {
			heard[other.Addr] = []string{peer}
		}
		if got := judgeTwins(heard, self, []probe.Target{other}, []string{own}); len(got) != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
