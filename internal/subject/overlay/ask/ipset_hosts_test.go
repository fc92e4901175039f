package ask

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/span"
)

func TestJudgeMembers(t *testing.T) {
	t.Parallel()
	var others []probe.Target
	for i := range 50 {
		others = append(others,
			probe.Target{Name: fmt.Sprintf("n%d", i),
				Attrs: map[string]string{probe.AttrOuter: fmt.Sprintf("10.0.0.%d", i)}})
	}
	others = append(others, probe.Target{Name: "unregistered"})
	r := judgeMembers("set", others, []span.Span{{First: netip.MustParseAddr("10.0.0.0"),
		Last: netip.MustParseAddr("10.0.0.4")}})
	checktest.Want(t, []probe.Result{r}, "", probe.Fail,
		"drops tunnelled packets from n5 10.0.0.5, n6 10.0.0.6, n7 10.0.0.7 and 42 more: not in set")
	if absent, _ := r.Facts[overlay.FactAbsent].([]string); len(absent) != node.Listed {
		t.Errorf("%+v", r.Facts)
	}
	checktest.Want(t, []probe.Result{judgeMembers("set", others[50:], nil)}, "", probe.Skip, "no other node")
}
