package mesh

import "testing"

// TestPairSays requires that a pair's report states whether one or both directions fail.
func TestPairSays(t *testing.T) {
	f := Finding{Kind: KindPair, Names: []string{"node-a", "node-b"}, Failed: 2, Of: 2}
	if got := f.Says(); got != "between node-a and node-b: 2 of 2 paths fail" {
		t.Error(got)
	}
	f.Failed = 1
	if got := f.Says(); got != "from node-a to node-b: 1 of 2 paths fail" {
		t.Error(got)
	}
}
