package conditions

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
)

func node(word string, causes ...probe.Cause) report.FleetNode {
	return report.FleetNode{Node: "a", Verdict: &probe.Verdict{Word: word}, Causes: causes}
}

func TestOf(t *testing.T) {
	t.Parallel()
	swap := probe.Cause{ID: "swap-on", Says: "swap is\non \x1b[31m" + strings.Repeat("x", 2000), Confidence: probe.High}
	for what, c := range map[string]struct {
		node           report.FleetNode
		status, reason string
	}{
		"healthy":    {node(report.WordHealthy), True, "NothingBroken"},
		"warnings":   {node(report.WordWarnings, swap), True, "NothingBroken"},
		"a cause":    {node(report.WordFault, swap), False, "SwapOn"},
		"no cause":   {node(report.WordFault), False, "NoKnownCause"},
		"incomplete": {node(report.WordIncomplete), Unknown, "NotKnown"},
		"suspected":  {node(report.WordIncomplete, swap), Unknown, "SwapOn"},
	} {
		got := Of(c.node, "r1")
		if got.Status != c.status || got.Reason != c.reason || !strings.HasSuffix(got.Message, ": run r1") ||
			len(got.Message) > maxMessage+20 || strings.ContainsAny(got.Message, "\n\x1b") {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
