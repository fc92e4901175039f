package runbook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// every is a runbook with a step of each kind. Its programs write to FILE that they started.
const every = `  - name: look
    run: {on: {names: ["${node}", b]}}
  - name: own
    check: {id: own-check, asks: x, command: [sh, -c, 'echo check >>"$1"', sh, FILE]}
  - name: q
    ask: {question: really, options: [yes, no]}
  - name: w
    wait: {until: status("node-swap") == "ok", within: 1m, every: 1ms}
  - name: tell
    notify: {command: [sh, -c, 'echo tell >>"$1"', sh, FILE]}
  - name: mend
    action: {says: mends, touches: nothing, dryRun: [echo, would], command: [sh, -c, 'echo mend >>"$1"; echo did', sh, FILE]}
  - choose:
    - name: left
      when: answers.q == "no"
    - name: right
      steps:
      - assert: {that: verdict == "healthy", else: x}
      - name: again
        run: {}
  - when: verdict == "fault"
    note: nothing
  - conclude: {verdict: healthy, says: "well, ${steps.look.verdicts.b}"}
`

// timeless returns a record without its times, and with the last attempt of its actions.
func timeless(t *testing.T, r *runbook.Record) string {
	t.Helper()
	c := *r
	c.Steps = nil
	for _, e := range r.Steps {
		e.At = time.Time{}
		if e.Deed != nil {
			d := *e.Deed
			d.Before, e.Deed = "", &d
		}
		c.Steps = append(c.Steps, e)
	}
	o := *r.Outcome
	o.Ended, c.Outcome = time.Time{}, &o
	b := must.Get(json.Marshal(c))(t)
	return string(b)
}

// TestResume cuts a journal after each line, and in the middle of each, and resumes it. The record is the same, and
// finished steps do not run again.
func TestResume(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	did := filepath.Join(dir, "did")
	rb := loaded(t, strings.ReplaceAll(every, "FILE", did))
	agreeable := func() *world {
		return &world{
			ask:     func(runbook.Question) (string, error) { return "yes", nil },
			confirm: func(runbook.Proposal) (bool, error) { return true, nil },
		}
	}
	engine := func(j *runbook.Journal, w *world) *runbook.Engine {
		return &runbook.Engine{Runbook: rb, Journal: j, World: w.functions(), Commands: true, Actions: []string{"mend"}}
	}
	whole := filepath.Join(dir, "whole")
	j, err := runbook.CreateJournal(whole, headerOf(rb))
	if err != nil {
		t.Fatal(err)
	}
	first := agreeable()
	r, err := engine(j, first).Do(t.Context())
	if err = errors.Join(err, j.Close()); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, r, "healthy", 0, "well, healthy")
	want, all := timeless(t, r), counts(t, did, first)
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if len(lines) < 20 {
		t.Fatalf("the journal has %d lines", len(lines))
	}
	for n := 1; n < len(lines)-1; n++ { // the last line is empty, and the one before it the outcome
		for _, cut := range []int{0, len(lines[n]) / 2} {
			name := filepath.Join(dir, fmt.Sprintf("%d-%d", n, cut))
			part := append(bytes.Join(lines[:n], nil), lines[n][:cut]...)
			must.Do(t, errors.Join(os.WriteFile(name, part, 0o600), os.RemoveAll(did)))
			j, err := runbook.OpenJournal(name, true)
			if err != nil {
				t.Fatal(err)
			}
			w := agreeable()
			again := false
			w.confirm = func(p runbook.Proposal) (bool, error) { again = p.Before != ""; return true, nil }
			r, err := engine(j, w).Do(t.Context())
			if err = errors.Join(err, j.Close()); err != nil {
				t.Fatal(err)
			}
			if got := timeless(t, r); got != want {
				t.Fatalf("after line %d the record differs:\n%s\n%s", n, got, want)
			}
			// What ended before the cut is not done again; what did not, is.
			ended := map[string]bool{}
			for _, l := range lines[1:n] {
				var entry struct{ Type, Key, Step string }
				must.Do(t, json.Unmarshal(l, &entry))
				ended[entry.Step] = ended[entry.Step] || entry.Type == "end" && !strings.HasSuffix(entry.Key, "@")
				ended[entry.Key] = ended[entry.Key] || entry.Type == "end"
				if entry.Step == "mend" && entry.Type == "begin" && n > 0 &&
					!bytes.Contains(bytes.Join(lines[1:n], nil), []byte(`"did\n"`)) != again {
					t.Errorf("after line %d it is not said that the action may have been done", n)
				}
			}
			now := counts(t, did, w)
			for what, effect := range map[string]string{
				"check": "own", "tell": "tell", "mend": "mend", "ask q": "q", "confirm mend": "mend", "run b": "1@b",
			} {
				if expected := all[what]; ended[effect] && now[what] != 0 || !ended[effect] && now[what] != expected {
					t.Errorf("after line %d: %s was done %d times (ended before: %t, in all %d)", n, what, now[what], ended[effect], expected)
				}
			}
			// And what was gone on with can be told as it was.
			j, err = runbook.OpenJournal(name, false)
			if err != nil || !j.Ended {
				t.Fatalf("the journal has no end: %v", err)
			}
			if r, err = runbook.Replay(rb, j); err != nil || timeless(t, r) != want {
				t.Fatalf("after line %d the journal tells another story: %v", n, err)
			}
			if _, err := runbook.OpenJournal(name, true); !errors.Is(err, runbook.ErrEnded) {
				t.Errorf("one that has ended can be gone on with: %v", err)
			}
		}
	}
}

// counts has the number of calls of the programs and of the world.
func counts(t *testing.T, file string, w *world) map[string]int {
	t.Helper()
	out := map[string]int{}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for word := range strings.FieldsSeq(string(text)) {
		out[word]++
	}
	maps.Copy(out, w.did)
	return out
}

// TestCutIsTold requires a truncated journal to be shown as far as it goes, without running anything.
func TestCutIsTold(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{
		"an ask": "ask: {question: really}", "a wait": "wait: {until: \"false\", within: 1h, every: 1h}", "a run": "run: {on: {others: 1}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cutIsTold(t, "  - name: look\n    run: {}\n  - name: q\n    "+last+"\n")
		})
	}
}

func cutIsTold(t *testing.T, steps string) {
	rb := loaded(t, steps)
	name := filepath.Join(t.TempDir(), "j")
	j, err := runbook.CreateJournal(name, headerOf(rb))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &world{nodes: errors.New("the API is away")}
	w.run = func(_ context.Context, node string, _ runbook.Run) (report.Run, error) {
		if w.did["run a"] > 1 {
			cancel()
		}
		return answer(node, healthy), nil
	}
	live, err := (&runbook.Engine{Runbook: rb, Journal: j, World: w.functions()}).Do(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runbook.OpenJournal(name, true); !errors.Is(err, runbook.ErrInUse) {
		t.Errorf("two can go on with one journal: %v", err)
	}
	must.Do(t, j.Close())
	if j, err = runbook.OpenJournal(name, false); err != nil {
		t.Fatal(err)
	}
	r, err := runbook.Replay(rb, j)
	if err != nil {
		t.Fatal(err)
	}
	if timeless(t, r) != timeless(t, live) || len(r.Steps) == 0 || len(r.Steps[0].Asked) != 1 {
		t.Errorf("it tells %s, and was %s", timeless(t, r), timeless(t, live))
	}
	for _, e := range r.Steps {
		if err := runbook.WriteEntry(io.Discard, e); err != nil {
			t.Error(err)
		}
	}
	if err := runbook.WriteMarkdown(io.Discard, r); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the journal can be read by others: %v %v", info.Mode(), err)
	}
}

// TestNoJournal rejects other files, and journals of other versions.
func TestNoJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]string{
		"":                    "is not the journal of a runbook",
		"hello\n":             "is not the journal of a runbook",
		`{"kind":"X"}` + "\n": "is not the journal of a runbook",
		`{"kind":"RunbookJournal","v":99,"version":"9.9"}` + "\n":  "newer calico-probe (9.9)",
		`{"kind":"RunbookJournal","v":1,"version":"0.0.1"}` + "\n": "is from calico-probe 0.0.1",
	} {
		name := filepath.Join(dir, "j")
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
		if _, err := runbook.OpenJournal(name, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestPrune requires that only old journals are removed.
func TestPrune(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now()
	var names []string
	for i := range 5 {
		at := now.Add(-time.Duration(i) * 24 * time.Hour)
		name := filepath.Join(dir, runbook.JournalName("x", "../a b", at))
		names = append(names, name)
		must.Do(t, errors.Join(os.WriteFile(name, nil, 0o600), os.Chtimes(name, at, at)))
	}
	other := filepath.Join(dir, "mine.ndjson")
	old := now.Add(-time.Hour * 1000)
	must.Do(t, errors.Join(os.WriteFile(other, nil, 0o600), os.Chtimes(other, old, old)))
	pruned := func(age time.Duration, keep, left int) {
		t.Helper()
		runbook.Prune(dir, age, keep)
		for i, name := range append(slices.Clone(names), other) {
			_, err := os.Stat(name)
			if there := err == nil; there != (i < left || name == other) {
				t.Errorf("older than %v, or more than %d: %s is there: %t", age, keep, name, there)
			}
		}
	}
	pruned(84*time.Hour, 5, 4)  // those of three days and a half
	pruned(840*time.Hour, 3, 3) // the latest three
}

// TestCut interrupts a run and a wait that return no error. Neither counts as finished, the record says so, and both
// run again.
func TestCut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps, told string
		at          int // the run in which it is stopped
	}{
		"a run":  {"  - name: x\n    run: {}\n  - conclude: {says: done}\n", "stopped early", 1},
		"a wait": {"  - name: x\n    wait: {until: 'status(\"node-swap\") == \"fail\"', within: 1m, every: 1ms, run: {}}\n  - conclude: {says: done}\n", "last results: a: healthy", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rb := loaded(t, c.steps)
			file := filepath.Join(t.TempDir(), "journal")
			j, err := runbook.CreateJournal(file, headerOf(rb))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w, runs := &world{}, 0
			w.run = func(_ context.Context, node string, _ runbook.Run) (report.Run, error) {
				if runs++; runs == c.at {
					cancel()
					return answer(node, nil), nil
				}
				return answer(node, healthy), nil
			}
			r, err := (&runbook.Engine{Runbook: rb, Journal: j, World: w.functions()}).Do(ctx)
			if err = errors.Join(err, j.Close()); err != nil {
				t.Fatal(err)
			}
			wantOutcome(t, r, "incomplete", 130, "interrupted")
			if x := step(t, r, "x"); !strings.Contains(x.Text, c.told) {
				t.Errorf("it was cut, and the record has %+v", x)
			}
			told := timeless(t, r)
			if j, err = runbook.OpenJournal(file, false); err != nil {
				t.Fatal(err)
			}
			if r, err = runbook.Replay(rb, j); err != nil || timeless(t, r) != told {
				t.Errorf("the journal tells another story: %v\n%s\n%s", err, timeless(t, r), told)
			}
			if j, err = runbook.OpenJournal(file, true); err != nil {
				t.Fatal(err)
			}
			w.run = func(_ context.Context, node string, _ runbook.Run) (report.Run, error) {
				return answer(node, map[string]probe.Status{"node-swap": probe.Fail}, swap), nil
			}
			r, err = (&runbook.Engine{Runbook: rb, Journal: j, World: w.functions()}).Do(t.Context())
			if err = errors.Join(err, j.Close()); err != nil {
				t.Fatal(err)
			}
			wantOutcome(t, r, "fault", 3, "done")
		})
	}
}

// TestNotRunIsOfferedAgain resumes with an action that was not allowed before. An action that ran is not offered again.
func TestNotRunIsOfferedAgain(t *testing.T) {
	t.Parallel()
	rb := loaded(t, "  - name: mend\n    action: {says: mends, touches: it, dryRun: [echo], command: [echo, did]}\n  - name: q\n    ask: {question: really}\n")
	j := runbook.NewJournal(headerOf(rb))
	w := &world{confirm: func(runbook.Proposal) (bool, error) { return true, nil }}
	var r *runbook.Record
	for i, actions := range [][]string{nil, nil, {"mend"}, {"mend"}} {
		var err error
		if r, err = (&runbook.Engine{
			Runbook: rb, Journal: j, World: w.functions(), Actions: actions, Commands: true,
		}).Do(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := step(t, r, "mend").Deed; (d.NotRun == "") != (i > 1) {
			t.Errorf("with %v it is %+v", actions, d)
		}
	}
	if w.did["confirm mend"] != 1 {
		t.Errorf("it was offered %d times", w.did["confirm mend"])
	}
}

// TestLater answers with the option that leaves a runbook open: it ends with its conclusion, and a resume asks again.
func TestLater(t *testing.T) {
	t.Parallel()
	rb := loaded(t, "  - run: {}\n  - name: fixed\n    ask: {question: done, options: [done, not-yet], default: not-yet, later: not-yet}\n  - conclude: {verdict: fault, says: \"${answers.fixed}\"}\n")
	j := runbook.NewJournal(headerOf(rb))
	for i, answer := range []string{"no", "n", "done"} {
		w := &world{ask: func(runbook.Question) (string, error) { return answer, nil }}
		r := must.Get((&runbook.Engine{Runbook: rb, Journal: j, World: w.functions()}).Do(t.Context()))(t)
		wantOutcome(t, r, "fault", 3, []string{"not-yet", "not-yet", "done"}[i])
		if w.did["ask fixed"] != 1 || j.Ended != (answer == "done") {
			t.Errorf("%q: asked %v, ended: %t", answer, w.did, j.Ended)
		}
		if again, err := runbook.Replay(rb, j); err != nil || timeless(t, again) != timeless(t, r) {
			t.Errorf("the journal tells another story: %v", err)
		}
	}
}
