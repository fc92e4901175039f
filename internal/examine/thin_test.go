package examine

import (
	"fmt"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestThinned requires that equally many nodes check each node, with blocks and tunnels of the same nodes.
func TestThinned(t *testing.T) {
	const nodes = 1000
	name := func(i int) string { return fmt.Sprintf("n%03d", i) }
	all := func() []probe.Target {
		out := []probe.Target{{Kind: probe.KindFelix}}
		for i := range nodes {
			out = append(out, probe.Target{Kind: probe.KindBlock, Node: name(i)},
				probe.Target{Kind: probe.KindTunnel, Node: name(i)})
		}
		return out
	}
	asked := map[string]int{}
	for i := range nodes {
		of := map[string]int{}
		for _, target := range thinned(all(), name(i)) {
			of[target.Node]++
		}
		if len(of) != maxPeers+2 || of[name(i)] != 2 || of[""] != 1 {
			t.Fatalf("%s is asked about %d nodes", name(i), len(of))
		}
		for n, count := range of {
			if n != "" && count != 2 {
				t.Errorf("%s: %d targets of %s", name(i), count, n)
			}
			asked[n]++
		}
	}
	for i := range nodes {
		if n := asked[name(i)]; n != maxPeers+1 {
			t.Errorf("%s is asked about by %d nodes", name(i), n)
		}
	}
	few := all()[:2*maxPeers]
	if got := thinned(few, name(0)); len(got) != len(few) {
		t.Errorf("of %d targets %d are left", len(few), len(got))
	}
}
