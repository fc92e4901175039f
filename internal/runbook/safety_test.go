package runbook_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestWhatGoesWrongIsTold writes every form of the record of a runbook that stops early, also from each part of its
// journal.
func TestWhatGoesWrongIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ steps, says string }{
		"a wait without nodes":      {"  - wait: {until: 'false', within: 1s, every: 1ms, run: {on: {others: 1}}}\n", "nodes is forbidden"},
		"a wait after no run":       {"  - {when: params.colour == \"blue\", run: {}}\n  - wait: {until: 'false', within: 1s, every: 1ms}\n", "no earlier run to repeat"},
		"an assert without answer":  {"  - run: {}\n  - assert: {that: 'causes[0].cause == \"swap-on\"', else: x}\n", "cannot evaluate the condition"},
		"a wait that does not hold": {"  - wait: {until: 'false', within: 5ms, every: 1ms, run: {}}\n", "was not true within"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rb := loaded(t, c.steps)
			file := filepath.Join(t.TempDir(), "j")
			j, err := runbook.CreateJournal(file, headerOf(rb))
			if err != nil {
				t.Fatal(err)
			}
			w := &world{nodes: errors.New("nodes is forbidden")}
			r, err := (&runbook.Engine{Runbook: rb, Journal: j, World: w.functions()}).Do(t.Context())
			if err = errors.Join(err, j.Close()); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(r.Outcome.Says, c.says) {
				t.Errorf("it came to %+v", *r.Outcome)
			}
			rendered(t, r)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines := bytes.SplitAfter(text, []byte("\n"))
			for n := 1; n <= len(lines); n++ {
				must.Do(t, os.WriteFile(file, bytes.Join(lines[:n], nil), 0o600))
				j := must.Get(runbook.OpenJournal(file, false))(t)
				again := must.Get(runbook.Replay(rb, j))(t)
				rendered(t, again)
				cut := !j.Ended && strings.HasPrefix(again.Outcome.Says, "the journal ends at")
				if again.Outcome.Exit != report.ExitIncomplete || !cut && again.Outcome.Says != r.Outcome.Says {
					t.Errorf("%d lines of its journal tell of %+v, and it came to %+v", n, *again.Outcome, *r.Outcome)
				}
			}
		})
	}
}

func rendered(t *testing.T, r *runbook.Record) {
	t.Helper()
	for _, e := range r.Steps {
		if err := runbook.WriteEntry(io.Discard, e); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(runbook.WriteOutcome(io.Discard, *r.Outcome), runbook.WriteMarkdown(io.Discard, r)); err != nil {
		t.Error(err)
	}
}

// TestBothOutputs makes a command write more than the limit to stdout and stderr at once.
func TestBothOutputs(t *testing.T) {
	t.Parallel()
	r := does(t, "  - name: own\n    check: {id: own-check, asks: x, command: [sh, -c, 'yes | head -c 500000 & yes n | head -c 500000 >&2; wait; exit 1']}\n", &world{})
	if got := step(t, r, "own").Result; got.Status != "fail" {
		t.Errorf("got %+v", got)
	}
}

// TestOwnChecksGo requires that a later run replaces the result of the runbook's own check.
func TestOwnChecksGo(t *testing.T) {
	t.Parallel()
	ill := true
	w := &world{run: func(_ context.Context, node string, _ runbook.Run) (report.Run, error) {
		if ill {
			ill = false
			return answer(node, map[string]probe.Status{"node-swap": probe.Fail}, swap), nil
		}
		return answer(node, healthy), nil
	}}
	r := does(t, "  - run: {}\n  - check: {id: own-check, asks: x, that: verdict == \"healthy\", saw: y}\n  - wait: {until: verdict == \"healthy\", within: 1m, every: 1ms}\n", w)
	wantOutcome(t, r, "healthy", 0, "")
}

// TestNobodyConfirms requires that without a person not even the dry run starts.
func TestNobodyConfirms(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "did")
	r := does(t, "  - name: mend\n    action: {says: a, touches: b, dryRun: [touch, "+file+"], command: [\"true\"]}\n", &world{}, func(e *runbook.Engine) {
		e.Actions, e.World.Unattended = []string{"mend"}, true
	})
	if d := step(t, r, "mend").Deed; !strings.Contains(d.NotRun, "cannot be confirmed") {
		t.Errorf("%+v", d)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("its dry run was started")
	}
}

// TestValueIsNoOption requires that a node's text cannot become an option of a command.
func TestValueIsNoOption(t *testing.T) {
	t.Parallel()
	w := &world{run: func(_ context.Context, node string, _ runbook.Run) (report.Run, error) {
		run := answer(node, healthy)
		run.Events[1].Result.Saw = "--all"
		return run, nil
	}}
	r := does(t, "  - run: {}\n  - name: own\n    check: {id: own-check, asks: x, command: [echo, '${results[0].saw}']}\n", w)
	if got := step(t, r, "own").Result; got.Status != "unknown" || !strings.Contains(got.Saw, "as an option") {
		t.Errorf("got %+v", got)
	}
}

// TestBodyIsJSON requires that values cannot break the JSON of a webhook's body.
func TestBodyIsJSON(t *testing.T) {
	t.Parallel()
	var got string
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = r.Header.Get("Content-Type") + " " + string(b)
	}))
	defer hook.Close()
	w := &world{run: func(_ context.Context, node string, _ runbook.Run) (report.Run, error) {
		run := answer(node, healthy)
		run.Events[1].Result.Saw = `a", "channel": "b`
		return run, nil
	}}
	steps := "  - run: {}\n  - name: tell\n    notify:\n      webhook:\n        url: %s\n        body: '{\"text\": %s}'\n"
	does(t, fmt.Sprintf(steps, hook.URL, "${json(results[0].saw)}"), w)
	if want := `application/json {"text": "a\", \"channel\": \"b"}`; got != want {
		t.Errorf("it was sent %s, want %s", got, want)
	}
	got = ""
	r := does(t, fmt.Sprintf(steps, hook.URL, "${results[0].saw}"), w)
	if told := step(t, r, "tell").Notified; got != "" || !strings.Contains(told.Failed, "not valid JSON") {
		t.Errorf("%+v, it was sent %s", told, got)
	}
}

// TestTooManyNodes requires that nothing runs if a selector matches too many nodes.
func TestTooManyNodes(t *testing.T) {
	t.Parallel()
	w := &world{}
	r := does(t, "  - run: {on: {selector: a=b}}\n", w, func(e *runbook.Engine) {
		e.World.Nodes = func(context.Context, runbook.Nodes, string) ([]string, error) { return make([]string, 1000), nil }
	})
	wantOutcome(t, r, "incomplete", 5, "1000 nodes match")
	if len(w.did) != 0 {
		t.Errorf("it did %v", w.did)
	}
}

// TestOldNews requires the age of old results to be shown after a resume.
func TestOldNews(t *testing.T) {
	t.Parallel()
	rb := loaded(t, "  - run: {}\n  - name: mend\n    action: {says: a, touches: b, dryRun: [echo], command: [echo]}\n  - conclude: {verdict: fault, says: x}\n")
	file := filepath.Join(t.TempDir(), "j")
	j, err := runbook.CreateJournal(file, headerOf(rb))
	if err != nil {
		t.Fatal(err)
	}
	engine := func(j *runbook.Journal, w *world) *runbook.Engine {
		return &runbook.Engine{Runbook: rb, Journal: j, World: w.functions(), Commands: true, Actions: []string{"mend"}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = engine(j, &world{confirm: func(p runbook.Proposal) (bool, error) {
		if p.Seen != "" {
			t.Errorf("what was just seen is old: %s", p.Seen)
		}
		cancel()
		return false, ctx.Err()
	}}).Do(ctx)
	if err = errors.Join(err, j.Close()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	today, before := time.Now().UTC().Format("2006-01-02T"), time.Now().UTC().AddDate(0, 0, -3).Format("2006-01-02T")
	must.Do(t, os.WriteFile(file, bytes.ReplaceAll(text, []byte(today), []byte(before)), 0o600))
	if j, err = runbook.OpenJournal(file, true); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	seen := ""
	r, err := engine(j, &world{confirm: func(p runbook.Proposal) (bool, error) { seen = p.Seen; return false, nil }}).
		Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(seen, "ago") {
		t.Errorf("the proposal says %q", seen)
	}
	wantOutcome(t, r, "fault", 3, "these results are from "+strings.TrimSuffix(before, "T"))
}

// TestPruneLeavesWhatIsInUse keeps the journals of running runbooks.
func TestPruneLeavesWhatIsInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rb := loaded(t, "  - run: {}\n")
	for i := range 4 {
		name := filepath.Join(dir, runbook.JournalName("test", "a", time.Now().Add(time.Duration(i)*time.Second)))
		j := must.Get(runbook.CreateJournal(name, headerOf(rb)))(t)
		defer j.Close()
	}
	runbook.Prune(dir, time.Hour, 1)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 4 {
		t.Errorf("%v, %d are left", err, len(left))
	}
}
