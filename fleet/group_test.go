package fleet

import (
	"slices"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestWitnesses wants what nodes find wrong with another one to stand with what is wrong there, and else by itself.
func TestWitnesses(t *testing.T) {
	t.Parallel()
	cause := func(id, about string) probe.Cause {
		return probe.Cause{ID: id, About: about, Confidence: probe.High, For: []probe.Clue{{Status: probe.Fail}}}
	}
	got := group([]judged{
		{name: "a", causes: []probe.Cause{cause("peer-pods", "b")}},
		{name: "b", causes: []probe.Cause{cause("peer-pods", "a"), cause("forwarding-off", "")}},
		{name: "c", causes: []probe.Cause{cause("peer-pods", "b")}},
		{name: "d", causes: []probe.Cause{cause("peer-pods", "e")}},
		{name: "e", causes: []probe.Cause{cause("peer-pods", "d")}},
	})
	if len(got) != 2 || got[0].Cause != "peer-pods" || !slices.Equal(got[0].Nodes, []string{"b", "d", "e"}) ||
		got[1].Cause != "forwarding-off" || !slices.Equal(got[1].Nodes, []string{"b"}) {
		t.Fatalf("%+v", got)
	}
	want := []probe.Witness{{Node: "a", Cause: "peer-pods", About: "b"}, {Node: "c", Cause: "peer-pods", About: "b"}}
	if !slices.Equal(got[1].Witnesses, want) {
		t.Errorf("witnesses: %+v", got[1].Witnesses)
	}
}
