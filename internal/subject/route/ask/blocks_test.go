package ask

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// TestOwners expects the owners of a block as a fact, so that causes need not parse the sentence.
func TestOwners(t *testing.T) {
	t.Parallel()
	of := func(node string) ipamBlock {
		return ipamBlock{netip.MustParsePrefix("10.244.1.0/26"), node, netip.MustParseAddr("10.0.0.2"), ""}
	}
	r := routeView{}.survey([]ipamBlock{of("b"), of("c")}, []ipamBlock{of("a")}).judge(foreign, 2, birdRoutes{})
	want := map[probe.Fact]map[string][]string{route.FactShared: {"10.244.1.0/26": {"a", "b", "c"}}}
	if !reflect.DeepEqual(r.Facts[route.FactOwners], want) {
		t.Errorf("%v", r.Facts)
	}
}

// TestJudgeMissing combines the nodes' state in the plan with the routes that the kernel has.
func TestJudgeMissing(t *testing.T) {
	t.Parallel()
	of := func(cidr, node, state string) ipamBlock {
		return ipamBlock{netip.MustParsePrefix(cidr), node, netip.MustParseAddr("10.0.0.2"), state}
	}
	ready, quiet, silent := of("10.244.1.0/26", "b", ""), of("10.244.2.0/26", "c", "NotReady"),
		of("10.244.3.0/26", "d", "NotReady (its kubelet is silent)")
	for name, c := range map[string]struct {
		f    findings
		in   birdRoutes
		want probe.Status
		saw  string
	}{
		"all of nodes that are not ready": {findings{missing: []ipamBlock{quiet, silent, quiet}},
			birdRoutes{said: "; BIRD has no route either"}, probe.Warn,
			"3 of 9 blocks of other nodes have no route: 10.244.2.0/26 of c, 10.244.3.0/26 of d, 10.244.2.0/26 of c; BIRD has no route either; the API reports c as NotReady, d as NotReady (its kubelet is silent)"},
		"one of a node that is ready": {findings{missing: []ipamBlock{ready, quiet}}, birdRoutes{}, probe.Fail,
			"2 of 9 blocks of other nodes have no route: 10.244.1.0/26 of b, 10.244.2.0/26 of c; the API reports c as NotReady"},
		"BIRD knows it": {findings{missing: []ipamBlock{quiet}}, birdRoutes{known: []string{"x"}}, probe.Fail,
			"the API reports c as NotReady"},
		"another leads astray": {findings{missing: []ipamBlock{quiet}, wrong: []string{"x"}}, birdRoutes{}, probe.Fail,
			"are routed to the wrong node"},
		"no node is called so": {findings{missing: []ipamBlock{ready}}, birdRoutes{}, probe.Fail, "10.244.1.0/26 of b"},
		"two owners": {findings{shared: []string{"10.244.1.0/26 of b and c"}}, birdRoutes{}, probe.Fail,
			"belong to two nodes in"},
		"an interface has the range": {findings{missing: []ipamBlock{quiet}, overlaps: []string{"virbr0 with 10.244.1.1/26, 10.244.1.0/26 of b"}}, birdRoutes{},
			probe.Fail, "packets to 1 of 9 blocks of other nodes stay on this node, because a local interface has their range: virbr0 with 10.244.1.1/26"},
		"nothing is lost": {findings{}, birdRoutes{}, probe.OK, "all 9 blocks"},
	} {
		if r := c.f.judge(foreign, 9, c.in); r.Status != c.want || !strings.Contains(r.Saw, c.saw) {
			t.Errorf("%s: %s %q", name, r.Status, r.Saw)
		} else if shared, _ := r.Facts[route.FactShared].([]string); len(shared) != len(c.f.shared) {
			t.Errorf("%s: %v", name, r.Facts)
		}
	}
}
