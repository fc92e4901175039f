package runbook_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/probe/must"
)

// mends returns a runbook with an action that destroys FILE, and ends as END says.
const mends = `  - name: mend
    action:
      says: mends
      touches: it
      dryRun: [echo, would]
      keep:
      - [cat, FILE]
      - [sh, -c, "echo gone; exit 1"]
      - [/no/such/program]
      command: [sh, -c, 'echo did >"$1"; END', sh, FILE]
  - conclude: {verdict: fault, says: x}
`

// TestKeep requires what an action destroys to be shown before the confirmation, and to be in the record, even if some
// of it cannot be saved.
func TestKeep(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	var log strings.Builder
	for i := range 300 { // more than is kept of any command
		fmt.Fprintf(&log, "line %d \x1b[2J%s\n", i, strings.Repeat("x", 1000))
	}
	must.Do(t, os.WriteFile(file, []byte(log.String()), 0o600))
	var shown []runbook.Kept
	w := &world{confirm: func(p runbook.Proposal) (bool, error) { shown = p.Kept; return true, nil }}
	r := does(t, strings.NewReplacer("FILE", file, "END", "true").Replace(mends), w,
		func(e *runbook.Engine) { e.Actions = []string{"mend"} })
	d := step(t, r, "mend").Deed
	if len(shown) != 3 || fmt.Sprint(shown) != fmt.Sprint(d.Kept) || d.NotRun != "" || d.Unsure != "" {
		t.Fatalf("shown: %v, then %+v", shown, d)
	}
	lines := d.Kept[0].Lines
	if len(lines) != 40 || !strings.HasPrefix(lines[0], "line 260 ") ||
		!strings.HasPrefix(lines[39], "line 299 ?[2Jxxx") || len(lines[0]) > 410 {
		t.Errorf("%d lines are kept: %q", len(lines), lines)
	}
	if d.Kept[1].Failed != "exit code 1: gone" || !strings.Contains(d.Kept[2].Failed, "could not be started") {
		t.Errorf("what cannot be had: %+v", d.Kept[1:])
	}
	rendered(t, r)
	if text, err := os.ReadFile(file); err != nil || string(text) != "did\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestCutAction interrupts a running action in several ways. Its result is unknown, the saved output stays, and it does
// not run again without a confirmation.
func TestCutAction(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]bool{"Ctrl-C": false, "kill -9": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file, journal := filepath.Join(dir, "log"), filepath.Join(dir, "journal")
			must.Do(t, os.WriteFile(file, []byte("last words\n"), 0o600))
			rb := loaded(t, strings.NewReplacer("FILE", file, "END", "sleep 20").Replace(mends))
			j, err := runbook.CreateJournal(journal, headerOf(rb))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				for ctx.Err() == nil {
					if text, err := os.ReadFile(file); err == nil && string(text) == "did\n" {
						cancel()
					}
					time.Sleep(10 * time.Millisecond)
				}
			}()
			engine := func(j *runbook.Journal, w *world, actions ...string) *runbook.Engine {
				return &runbook.Engine{Runbook: rb, Journal: j, World: w.functions(), Commands: true, Actions: actions}
			}
			agrees := &world{confirm: func(runbook.Proposal) (bool, error) { return true, nil }}
			r, err := engine(j, agrees, "mend").Do(ctx)
			if err = errors.Join(err, j.Close()); err != nil {
				t.Fatal(err)
			}
			wantOutcome(t, r, "incomplete", 130, "interrupted")
			if killed { // it writes nothing more then
				text := must.Get(os.ReadFile(journal))(t)
				whole := slices.Collect(strings.Lines(string(text)))
				must.Do(t, os.WriteFile(journal, []byte(strings.Join(whole[:len(whole)-1], "")), 0o600))
			} else {
				cutDeed(t, r)
			}
			if j, err = runbook.OpenJournal(journal, false); err != nil {
				t.Fatal(err)
			}
			if r, err = runbook.Replay(rb, j); err != nil || r.Outcome.Exit != report.ExitIncomplete && r.Outcome.Exit != 130 {
				t.Fatalf("%v: %+v", err, r.Outcome)
			}
			cutDeed(t, r)

			// On with it: not allowed, nobody there, and a person who says no.
			if j, err = runbook.OpenJournal(journal, true); err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			asked := ""
			says := func(yes bool) *world {
				return &world{confirm: func(p runbook.Proposal) (bool, error) { asked = p.Before; return yes, nil }}
			}
			for i, e := range []*runbook.Engine{
				engine(j, agrees), engine(j, &world{}, "mend"), engine(j, says(false), "mend"), engine(j, says(true), "mend"),
			} {
				if i == 3 { // it ends by itself now
					rb.Spec.Steps[0].Action.Command = []string{"echo", "did"}
				}
				r := must.Get(e.Do(t.Context()))(t)
				d := step(t, r, "mend").Deed
				if (d.NotRun == "") != (i == 3) || !strings.Contains(d.Before, "it started at") ||
					d.Kept[0].Lines[0] != "last words" {
					t.Errorf("%d: %+v", i, d)
				}
				rendered(t, r)
			}
			if !strings.Contains(asked, "confirmed by ann@desk") {
				t.Errorf("who confirms it anew is told %q", asked)
			}
		})
	}
}

// TestOfferedAgain requires a resume to offer an action that did not run, or may not have run, and to say so if it may
// have.
func TestOfferedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command []string
		before  string // "" = it certainly was not done
	}{
		"killed":      {[]string{"sh", "-c", "kill -9 $$"}, "its command was terminated: signal: killed, confirmed by ann@desk"},
		"not started": {[]string{"/no/such/program"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			journal := filepath.Join(dir, "journal")
			rb := loaded(t, strings.NewReplacer("FILE", filepath.Join(dir, "log"), "END", "true").Replace(mends))
			j := must.Get(runbook.CreateJournal(journal, headerOf(rb)))(t)
			var asked []runbook.Proposal
			agrees := &world{confirm: func(p runbook.Proposal) (bool, error) { asked = append(asked, p); return true, nil }}
			tries := func(actions []string, command ...string) *runbook.Deed {
				t.Helper()
				rb.Spec.Steps[0].Action.Command = command
				e := runbook.Engine{Runbook: rb, Journal: j, World: agrees.functions(), Commands: true, Actions: actions}
				r := must.Get(e.Do(t.Context()))(t)
				fits(t, r)
				return step(t, r, "mend").Deed
			}
			allowed := []string{"mend"}
			d := tries(allowed, c.command...)
			if (d.Unsure != "") != (c.before != "") || (d.NotRun != "") != (c.before == "") {
				t.Fatalf("it was tried, and is told as %+v", d)
			}
			if again := tries(nil, "echo", "did"); len(asked) != 1 || fmt.Sprint(again) != fmt.Sprint(d) {
				t.Errorf("where it is not allowed any more it is told as %+v, before as %+v", again, d)
			}
			d = tries(allowed, "echo", "did")
			if len(asked) != 2 || asked[1].Before != c.before || d.Before != c.before || d.NotRun != "" || d.Unsure != "" ||
				d.Output != "did\n" {
				t.Errorf("it is offered as %+v, and then told as %+v", asked, d)
			}
			if tries(allowed, "echo", "twice"); len(asked) != 2 {
				t.Error("what was done is offered again")
			}
			must.Do(t, j.Close())

			// The same journal, where the second try was killed with the program.
			text := must.Get(os.ReadFile(journal))(t)
			at := strings.LastIndex(string(text), `{"type":"begin"`)
			began, _, _ := strings.Cut(string(text)[at:], "\n")
			must.Do(t, os.WriteFile(journal, []byte(string(text)[:at]+began+"\n"), 0o600))
			j = must.Get(runbook.OpenJournal(journal, false))(t)
			r := must.Get(runbook.Replay(rb, j))(t)
			if d := step(t, r, "mend").Deed; d.NotRun != "" || !strings.Contains(d.Unsure, "it started at") {
				t.Errorf("a second try that was cut is told as %+v", d)
			}
		})
	}
}

// TestLed requires every command to get a kubeconfig for the runbook's cluster. No file is written for a command that
// does not start, and no command starts without one.
func TestLed(t *testing.T) {
	t.Parallel()
	const steps = `  - name: own
    check: {id: own-check, asks: x, command: [sh, -c, 'echo "$KUBECONFIG"']}
  - name: mend
    action: {says: mends, touches: it, dryRun: [echo, would], command: [echo, did]}
  - conclude: {verdict: fault, says: x}
`
	made, removed := 0, 0
	led := func(err error) func(*runbook.Engine) {
		return func(e *runbook.Engine) {
			e.World.Kubeconfig = func() (string, func(), error) {
				made++
				return fmt.Sprint("/led-", made), func() { removed++ }, err
			}
		}
	}
	r := does(t, steps, &world{}, led(nil))
	if saw := step(t, r, "own").Result.Saw; saw != "/led-1" || made != 1 || removed != 1 {
		t.Errorf("it is led to %q; %d files were made, and %d removed", saw, made, removed)
	}
	r = does(t, steps, &world{}, led(errors.New("no place")))
	if own := step(t, r, "own").Result; own.Status != "unknown" || !strings.Contains(own.Saw, "could not be started: no place") {
		t.Errorf("what cannot be led is told as %+v", own)
	}
}

// cutDeed requires a record of an interrupted action.
func cutDeed(t *testing.T, r *runbook.Record) {
	t.Helper()
	d := step(t, r, "mend").Deed
	if d == nil || d.NotRun != "" || !strings.Contains(d.Unsure, "it started at") || d.By != "ann@desk" ||
		len(d.Kept) != 3 || d.Kept[0].Lines[0] != "last words" {
		t.Errorf("of an action that was cut it tells %+v", d)
	}
	rendered(t, r)
	fits(t, r)
}
