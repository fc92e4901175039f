package ask

import (
	"fmt"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
)

// TestSamplePeers samples a hundred nodes, some of them not ready, and two switches.
func TestSamplePeers(t *testing.T) {
	t.Parallel()
	peers := []probe.Target{}
	for i := range 100 {
		n := checktest.Session("mesh", fmt.Sprintf("n%02d", i), fmt.Sprintf("10.0.1.%d", i), 179)
		n.Node = n.Name
		if i%2 == 0 {
			n.Attrs[probe.AttrNode] = "NotReady"
		}
		peers = append(peers, n)
	}
	peers = append(peers, checktest.Session("global", "tor-1", "10.0.0.253", 1179),
		checktest.Session("global", "tor-2", "10.0.0.254", 179))
	got := samplePeers(peers)
	if len(got) != 8 || got[0].Name != "tor-1" || got[1].Name != "tor-2" || got[2].Name != "n01" ||
		got[7].Name < "n80" {
		t.Errorf("%v", got)
	}
	for _, p := range got {
		if p.Attrs[probe.AttrNode] != "" {
			t.Errorf("%s is not ready, and others are", p)
		}
	}
	if got := samplePeers(peers[:3]); len(got) != 3 || got[0].Name != "n01" {
		t.Errorf("of few: %v", got)
	}
}
