package conditions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/report"
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
			len(got.Message) > longestMessage+20 || strings.ContainsAny(got.Message, "\n\x1b") {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC)
	well, bad := Of(node(report.WordHealthy), "r2"), Of(node(report.WordFault), "r2")
	wasWell, wasBad := Of(node(report.WordHealthy), "r1"), Of(node(report.WordFault), "r1")
	wasWell.Heartbeat, wasBad.Heartbeat = now.Add(-time.Minute), now.Add(-time.Minute)
	old := wasWell
	old.Heartbeat = now.Add(-time.Hour)
	ahead, words, others := wasWell, wasBad, bad // of a clock that is ahead; of causes that differ behind such words
	ahead.Heartbeat = now.Add(1000 * time.Hour)
	words.Message, others.Message = "for its proof: run this (high): run r1", "for its proof: run that (high): run r2"
	had := map[string]Condition{"same": wasWell, "ahead": ahead, "words": words, "old": old, "healed": wasBad,
		"broke": wasWell, "still": wasBad}
	found := map[string]Condition{"same": well, "ahead": well, "words": others, "old": well, "healed": well,
		"broke": bad, "still": bad, "new": well}
	write, held := Plan(had, found, time.Hour, 1, now)
	if len(held) > 0 || fmt.Sprint(keys(write)) != "[ahead broke healed new old words]" {
		t.Errorf("written %v, held %v", keys(write), held)
	}
	found["same"] = bad
	write, held = Plan(had, found, time.Hour, 1, now)
	if fmt.Sprint(held) != "[broke same]" || fmt.Sprint(keys(write)) != "[ahead healed new old words]" {
		t.Errorf("of two that turn: written %v, held %v", keys(write), held)
	}
}

func keys(m map[string]Condition) []string {
	var out []string
	for _, name := range []string{"ahead", "broke", "healed", "new", "old", "same", "still", "words"} {
		if _, ok := m[name]; ok {
			out = append(out, name)
		}
	}
	return out
}
