package fleet

import (
	"encoding/json"
	"fmt"
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

// TestOrder wants the same groups, with the same examples, in whichever order nodes are done.
func TestOrder(t *testing.T) {
	t.Parallel()
	var all []judged
	for i := range 20 {
		n := judged{name: fmt.Sprintf("node-%02d", i), attributes: []string{fmt.Sprintf("zone=%d", i%3)}}
		n.causes = []probe.Cause{{ID: fmt.Sprintf("cause-%d", i%2), Confidence: probe.High}}
		n.bad = []probe.Result{{Check: "felix-live", Saw: n.name}}
		n.verdict.Unexplained = []string{"felix-live"}
		all = append(all, n)
	}
	want, err := json.Marshal(group(all))
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	if got, err := json.Marshal(group(all)); err != nil || string(got) != string(want) {
		t.Errorf("%v\n%s\n%s", err, got, want)
	}
}

// TestManyWitnesses wants a dead node not to make a group as large as the cluster.
func TestManyWitnesses(t *testing.T) {
	t.Parallel()
	all := []judged{{name: "dead", causes: []probe.Cause{{ID: "kubelet-silent"}}}}
	for i := range 1000 {
		all = append(all, judged{name: fmt.Sprintf("node-%03d", i), causes: []probe.Cause{{ID: "peer-pods", About: "dead"}}})
	}
	got := group(all)
	if len(got) != 1 || len(got[0].Witnesses) != mostWitnesses || got[0].MoreWitnesses != 1000-mostWitnesses {
		t.Errorf("%d groups: %d witnesses and %d more", len(got), len(got[0].Witnesses), got[0].MoreWitnesses)
	}
}
