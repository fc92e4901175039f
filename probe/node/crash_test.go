package node

import (
	"context"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestCrashBeside crashes a check on a goroutine that it started: the check is unknown, and the others are answered.
func TestCrashBeside(t *testing.T) {
	t.Parallel()
	suite := []*probe.Check{
		{ID: "a-crash", Run: func(_ context.Context, p *probe.Pass) {
			Each([]string{"x", " "}, func(text string) { p.Report(probe.Found(probe.OK, "%s", strings.Fields(text)[0])) })
		}},
		{ID: "b-good", Run: func(_ context.Context, p *probe.Pass) { p.Report(probe.Found(probe.OK, "seen")) }},
	}
	got := map[string]string{}
	r := probe.Runner{Suite: suite, Host: &probe.Host{}, Version: "test"}
	r.Run(t.Context(), probe.Plan{Checks: []string{"a-crash", "b-good"}}, func(ev probe.Event) {
		if r := ev.Result; r != nil {
			got[r.Check] += string(r.Status) + " " + r.Saw + "\n"
		}
	})
	if !strings.Contains(got["a-crash"], "unknown the check crashed: runtime error: index out of range") ||
		got["b-good"] != "ok seen\n" {
		t.Errorf("%q", got)
	}
}
