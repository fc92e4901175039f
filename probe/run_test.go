package probe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func check(id string, run func(context.Context, *Pass), needs ...string) *Check {
	return &Check{ID: id, From: FromNode, Needs: needs, Run: run, Limit: 500 * time.Millisecond}
}

func answers(s Status) func(context.Context, *Pass) {
	return Once(func(context.Context, *Host) Result { return Found(s, "seen") })
}

func run(t *testing.T, suite []*Check, ids ...string) []Event {
	t.Helper()
	var got []Event
	r := &Runner{Suite: suite, Host: &Host{Root: "/"}, Version: "test"}
	r.Run(t.Context(), Plan{Run: "r", Checks: ids}, func(ev Event) { got = append(got, ev) })
	if got[0].Type != EventStart || got[len(got)-1].Type != EventEnd {
		t.Fatalf("stream does not run from start to end: %v", got)
	}
	return got[1 : len(got)-1]
}

func result(t *testing.T, evs []Event, id string) Result {
	t.Helper()
	i := slices.IndexFunc(evs, func(e Event) bool { return e.Result.Check == id })
	if i < 0 {
		t.Fatalf("no result of %s", id)
	}
	return *evs[i].Result
}

func TestWhatACheckDoesWrongCostsOneUnknownResult(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	suite := []*Check{
		check("good-one", answers(OK)),
		check("panics-one", func(context.Context, *Pass) { panic("boom") }),
		check("blocks-one", func(context.Context, *Pass) { <-hold }),
		check("silent-one", func(context.Context, *Pass) {}),
		check("statusless-one", func(_ context.Context, p *Pass) { p.Report(Result{Saw: "x"}) }),
		check("partial-one", func(_ context.Context, p *Pass) { p.Report(Found(OK, "first")); <-hold }),
	}
	evs := run(t, suite, "good-one", "panics-one", "blocks-one", "silent-one", "statusless-one", "partial-one",
		"not-here")
	for id, want := range map[string]string{
		"panics-one": "boom", "blocks-one": "still blocked", "silent-one": "without an answer", "statusless-one": "x",
	} {
		if got := result(t, evs, id); got.Status != Unknown || !strings.Contains(got.Saw, want) {
			t.Errorf("%s: got %s %q, want unknown with %q", id, got.Status, got.Saw, want)
		}
	}
	if got := result(t, evs, "good-one"); got.Status != OK {
		t.Errorf("a good check beside bad ones: %v", got)
	}
	if got := result(t, evs, "not-here"); got.Status != Unknown {
		t.Errorf("a check this probe does not have: %v", got)
	}
	if n := len(evs); n != 8 { // partial-one gives two
		t.Errorf("%d results, want 8: %v", n, evs)
	}
}

func TestNeeds(t *testing.T) {
	bad, good := check("bad-one", answers(Fail)), check("good-one", answers(Warn))
	suite := []*Check{check("a-one", answers(OK), bad.ID), check("b-one", answers(OK), good.ID), bad, good}
	evs := run(t, suite, "a-one", "b-one", "bad-one", "good-one")
	if got := result(t, evs, "a-one"); got.Status != Skip || !strings.Contains(got.Saw, "bad-one") {
		t.Errorf("needs a failed check: %v", got)
	}
	if got := result(t, evs, "b-one"); got.Status != OK {
		t.Errorf("needs a check that warned: %v", got)
	}
	if got := result(t, run(t, suite, "a-one"), "a-one"); got.Status != OK {
		t.Errorf("the user left the need out: %v", got)
	}
}

func TestResultsAfterTheDeadlineAreDropped(t *testing.T) {
	release, reported := make(chan struct{}), make(chan struct{})
	c := check("late-one", func(_ context.Context, p *Pass) {
		<-release
		p.Report(Found(OK, "late"))
		close(reported)
	})
	evs := run(t, []*Check{c}, "late-one")
	close(release)
	<-reported
	if len(evs) != 1 || evs[0].Result.Status != Unknown {
		t.Errorf("got %v", evs)
	}
}

func TestSelect(t *testing.T) {
	suite := []*Check{check("bgp-session", answers(OK)), check("bgp-port", answers(OK)),
		check("node-swap", answers(OK))}
	suite[2].Tags = []string{"kubelet"}
	for _, c := range []struct{ want, without, got string }{
		{"", "", "bgp-session bgp-port node-swap"},
		{"bgp-*", "", "bgp-session bgp-port"},
		{"kubelet", "", "node-swap"},
		{"", "bgp-*", "node-swap"},
		{"node-swap bgp-port", "", "bgp-port node-swap"},
	} {
		got, err := Select(suite, strings.Fields(c.want), strings.Fields(c.without))
		var ids []string
		for _, g := range got {
			ids = append(ids, g.ID)
		}
		if err != nil || strings.Join(ids, " ") != c.got {
			t.Errorf("Select(%q, %q) = %v, %v", c.want, c.without, ids, err)
		}
	}
	_, err := Select(suite, []string{"bgp-sessions"}, nil)
	if err == nil || !strings.Contains(err.Error(), "did you mean bgp-session?") {
		t.Errorf("a mistyped check: %v", err)
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		suite []*Check
		want  string
	}{
		"itself":   {[]*Check{check("x-y", answers(OK), "x-y")}, "needs itself"},
		"cycle":    {[]*Check{check("x-y", answers(OK), "z-z"), check("z-z", answers(OK), "x-y")}, "z-z needs itself"},
		"form":     {[]*Check{check("Bad", answers(OK))}, "kebab-case"},
		"twice":    {[]*Check{check("x-y", answers(OK)), check("x-y", answers(OK))}, "used twice"},
		"unlisted": {[]*Check{check("x-y", answers(OK), "z-z")}, `"z-z", which is not in the suite`},
		"empty":    {[]*Check{{ID: "x-y"}}, "lacks"},
	} {
		if err := Validate(c.suite); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProfiles(t *testing.T) {
	quick, deep := check("one-quick", answers(OK)), check("one-deep", answers(OK))
	standard := check("one-standard", answers(OK))
	standard.In, deep.In, deep.Access = Standard, Deep, []string{"NET_RAW", AccessPods, "run/calico", "NET_RAW"}
	suite := []*Check{deep, quick, standard}
	for p, want := range map[Profile][]*Check{Quick: {quick}, Standard: {quick, standard},
		Deep: {deep, quick, standard}} {
		if got := Within(suite, p); !slices.Equal(got, want) {
			t.Errorf("%s: %d checks, want %d", p, len(got), len(want))
		}
	}
	if got := Capabilities(suite); !slices.Equal(got, []string{"NET_RAW", "SYS_ADMIN", "SYS_PTRACE"}) {
		t.Errorf("%v", got)
	}
}

// TestInside runs a check on the node and again in a pod, which here is a second runner.
func TestInside(t *testing.T) {
	both := check("both-sides", func(_ context.Context, p *Pass) {
		p.Report(Found(OK, "%d targets", len(p.Targets)).On("x"))
	})
	both.Inside = true
	within := check("pod-only", both.Run)
	within.From = FromPod
	suite := []*Check{both, within}
	var entered atomic.Int64
	enter := func(ctx context.Context, pod Target, req Request, emit func(Event)) error {
		if entered.Add(1); pod.Name == "default/gone" {
			return errors.New("no process of it is to be seen")
		}
		(&Runner{Suite: suite, Host: &Host{Root: "/"}}).Run(ctx, *req.Plan, emit)
		return nil
	}
	ask := func(r *Runner, plan Plan) (got []string) {
		r.Suite, r.Host = suite, &Host{Root: "/"}
		plan.Checks = []string{"both-sides", "pod-only"}
		if len(suite) > 2 {
			plan.Checks = append(plan.Checks, "pod-down")
		}
		r.Run(t.Context(), plan, func(ev Event) {
			if ev.Result != nil {
				got = append(got, string(ev.Result.Status)+" "+ev.Result.Check+" "+ev.Result.From+": "+ev.Result.Saw)
			}
		})
		slices.Sort(got)
		return got
	}
	pods := []Target{{Kind: KindLocal, Name: "default/gone"}, {Kind: KindLocal, Name: "default/w"}}
	want := []string{"ok both-sides : 2 targets", "ok both-sides default/w: 2 targets",
		"ok pod-only default/w: 2 targets"}
	if got := ask(&Runner{Enter: enter}, Plan{Targets: pods}); !slices.Equal(got, want) || entered.Load() != 4 {
		t.Errorf("%d entered: %q", entered.Load(), got)
	}
	down := check("pod-down", answers(Fail))
	down.From = FromPod
	both.Needs, suite = []string{down.ID}, append(suite, down)
	got := ask(&Runner{Enter: enter}, Plan{Targets: pods[1:]})
	both.Needs = nil
	if !slices.Contains(got, "ok both-sides : 2 targets") && !slices.Contains(got, "ok both-sides : 1 targets") {
		t.Errorf("what only its inside needs holds the node's part up: %q", got)
	}
	if !slices.Contains(got, "skip both-sides : not run inside a pod: pod-down did not pass") {
		t.Errorf("a pod that is cut off is asked from: %q", got)
	}
	for name, c := range map[string]struct {
		runner *Runner
		plan   Plan
		want   string
	}{
		"cannot": {&Runner{}, Plan{Targets: pods}, "skip pod-only : this probe cannot enter pods"},
		"nobody": {&Runner{Enter: enter}, Plan{}, "skip pod-only : no ready workload pod"},
		"not known": {&Runner{Enter: enter}, Plan{Gaps: map[string]string{KindLocal: "forbidden"}},
			"unknown pod-only : the pods on this node are unknown: forbidden"},
		"gone": {&Runner{Enter: enter}, Plan{Targets: pods[:1]},
			"unknown pod-only : not run inside a pod: no process"},
	} {
		got := ask(c.runner, c.plan)
		if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, c.want) }) ||
			!strings.HasPrefix(got[0], "ok both-sides :") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
