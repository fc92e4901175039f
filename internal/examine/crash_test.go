package examine

import (
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestRuleCrashes requires that a run names a crashed rule and is incomplete, and that a fault remains. Replayed by a
// client with a working rule, the run must be unchanged.
func TestRuleCrashes(t *testing.T) {
	t.Parallel()
	for status, want := range map[probe.Status]int{
		probe.OK: report.ExitIncomplete, probe.Warn: report.ExitIncomplete, probe.Fail: report.ExitFault,
	} {
		kept := &Recorder{}
		c := NewCollector("node-a", kept)
		c.suite.Rules = append(slices.Clone(c.suite.Rules), &diagnose.Rule{ID: "crashes",
			Match: func(diagnose.Findings) []diagnose.Case {
				panic("boom")
			}})
		r := probe.Found(status, "seen").On("x")
		r.Check = "node-swap"
		for _, ev := range []probe.Event{
			{Type: probe.EventStart, Start: &probe.Start{V: 1}}, {Type: probe.EventResult, Result: &r},
			{Type: probe.EventEnd, End: &probe.End{}},
		} {
			must.Do(t, c.Add("pod", ev))
		}
		if err := c.Conclude(); err != ui.Exit(want) || kept.Run.Verdict.Exit != want {
			t.Errorf("%s: %v, %+v", status, err, kept.Run.Verdict)
		}
		said := func(ev probe.Event) bool {
			return ev.Result != nil && ev.Result.Status == probe.Unknown &&
				strings.HasPrefix(ev.Result.Saw, "rule crashes failed: it crashed: boom")
		}
		if !slices.ContainsFunc(kept.Run.Events, said) {
			t.Errorf("%s: the rule is not named: %+v", status, kept.Run.Events)
		}
		again := &Recorder{}
		if _, err := Replay(kept.Run, again); err != nil || slices.ContainsFunc(again.Run.Events, said) {
			t.Errorf("%s: %v, the rule is still named", status, err)
		}
	}
}
