package checks

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestSpans has the orders in which kernels list the ends of intervals.
func TestSpans(t *testing.T) {
	t.Parallel()
	b := func(a string, end bool) boundary { return boundary{netip.MustParseAddr(a), end} }
	text := func(all []span) string {
		var out []string
		for _, s := range all {
			out = append(out, s.first.String()+"-"+s.last.String())
		}
		return strings.Join(out, " ")
	}
	for want, keys := range map[string][]boundary{
		"10.0.0.1-10.0.0.1 10.0.0.2-10.0.0.2": {b("10.0.0.3", true), b("10.0.0.2", false), b("10.0.0.2", true),
			b("10.0.0.1", false), b("0.0.0.0", true)},
		"10.1.0.0-10.1.0.255":       {b("10.1.0.0", false), b("10.1.1.0", true)},
		"255.0.0.0-255.255.255.255": {b("255.0.0.0", false)},
		"fd00::1-fd00::1":           {b("fd00::2", true), b("fd00::1", false)},
		"":                          {b("0.0.0.0", true)},
	} {
		if got := text(spans(keys, true)); got != want {
			t.Errorf("%v: %s", keys, got)
		}
	}
	if got := text(spans([]boundary{b("10.0.0.9", false), b("10.0.0.1", false)},
		false)); got != "10.0.0.1-10.0.0.1 10.0.0.9-10.0.0.9" {
		t.Error(got)
	}
}

func TestMembersJudged(t *testing.T) {
	t.Parallel()
	var others []probe.Target
	for i := range 50 {
		others = append(others,
			probe.Target{Name: fmt.Sprintf("n%d", i),
				Attrs: map[string]string{probe.AttrOuter: fmt.Sprintf("10.0.0.%d", i)}})
	}
	others = append(others, probe.Target{Name: "unregistered"})
	r := judgeMembers("set", others, []span{{netip.MustParseAddr("10.0.0.0"), netip.MustParseAddr("10.0.0.4")}})
	want(t, []probe.Result{r}, "", probe.Fail,
		"from n5 10.0.0.5, n6 10.0.0.6, n7 10.0.0.7 and 42 more are dropped here: not in set")
	if absent, _ := r.Facts[FactAbsent].([]string); len(absent) != listed {
		t.Errorf("%+v", r.Facts)
	}
	want(t, []probe.Result{judgeMembers("set", others[50:], nil)}, "", probe.Skip, "no other node")
}
