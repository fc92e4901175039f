package runbook_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// hostile is a text that a node could send to the reader of the record.
const hostile = "```\n# owned\n[x](http://evil) @all | <script> \x1b[2J `rm`"

// told returns the record of a runbook with a step of each kind, on a hostile node.
func told(t *testing.T) *runbook.Record {
	t.Helper()
	w := &world{
		ask:     func(runbook.Question) (string, error) { return hostile, nil },
		confirm: func(runbook.Proposal) (bool, error) { return true, nil },
	}
	w.run = func(_ context.Context, node string, _ runbook.Run) (report.Run, error) {
		bad := swap
		bad.Says, bad.For = hostile, []probe.Clue{{Check: "node-swap", Status: probe.Fail, Saw: hostile}}
		run := answer(node, map[string]probe.Status{"node-swap": probe.Fail, "bgp-session": probe.OK}, bad)
		if node == "b" {
			run = answer(node, map[string]probe.Status{"felix-live": probe.Unknown})
		}
		return run, nil
	}
	r := does(t, `  - name: look
    run: {on: {names: ["${node}", b]}}
  - {name: left, note: x, when: verdict == "healthy"}
  - name: own
    check: {id: own-check, asks: "is it?", command: [printf, "# a\\033[1mb\\n"]}
  - name: q
    ask: {question: "who is ${node}?"}
  - name: said
    note: |
      first ${causes[0].says}
      second ${answers.q}
  - name: tell
    notify: {command: [sh, -c, "exit 1"]}
  - name: mend
    action: {says: mends, touches: "${answers.q}", dryRun: [printf, "`+"```"+`\\nwould\\n"], keep: [[printf, "`+"```"+`\\n# owned \\033[2J@all\\n    a  column\\n"], [sh, -c, "echo @all; exit 1"]], command: [printf, "did | it\\n"]}
  - {name: skipped, action: {says: mends, touches: it, dryRun: [echo], command: [echo, "a b", "c'd"]}}
  - assert: {that: cause("swap-on"), else: x}
  - name: wait
    wait: {until: verdict == "healthy", within: 1s, every: 400ms}
`, w, func(e *runbook.Engine) { e.Actions = []string{"mend"} })
	for i := range r.Steps {
		if e := &r.Steps[i]; !e.At.IsZero() {
			e.At = time.Date(2026, 11, 21, 3, 0, i, 0, time.UTC)
		}
		if d := r.Steps[i].Deed; d != nil {
			for k := range d.Kept {
				d.Kept[k].At = time.Date(2026, 11, 21, 3, 0, i, 0, time.UTC)
			}
		}
		if r.Steps[i].Kind == "wait" {
			r.Steps[i].Tries = 3
		}
	}
	r.Outcome.Ended = time.Date(2026, 11, 21, 3, 1, 0, 0, time.UTC)
	return r
}

// TestNoteIsFoldedOnce requires consecutive lines of a note to become one paragraph, and commands, list items and
// paragraphs to stay separate.
func TestNoteIsFoldedOnce(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	note := "Check\nwhat calico-node logged last: a restart\ntakes it away.\n\n- one\n  and more\n- two\n    kubectl get nodes\nthen wait\n"
	must.Do(t, runbook.WriteEntry(&text, runbook.Entry{Kind: "note", Name: "look", Text: note}))
	for _, want := range []string{"    Check what calico-node logged last: a restart takes it away.\n", "    - one and more\n",
		"    - two\n", "\n    kubectl get nodes\n", "    then wait\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// TestRecord compares the texts of a record with golden files; texts from nodes control nothing.
func TestRecord(t *testing.T) {
	t.Parallel()
	r := told(t)
	var text, markdown bytes.Buffer
	for _, e := range r.Steps {
		must.Do(t, runbook.WriteEntry(&text, e))
	}
	must.Do(t, runbook.WriteOutcome(&text, *r.Outcome))
	must.Do(t, runbook.WriteMarkdown(&markdown, r))
	for name, got := range map[string]string{
		"testdata/record.txt": text.String(), "testdata/record.md": markdown.String(),
	} {
		if strings.ContainsRune(got, '\x1b') {
			t.Errorf("%s steers a terminal", name)
		}
		if *update {
			must.Do(t, os.WriteFile(name, []byte(got), 0o644))
		}
		want := must.Get(os.ReadFile(name))(t)
		if got != string(want) {
			t.Errorf("%s is not what it was (go test -update writes it):\n%s", name, got)
		}
	}
	for line := range strings.Lines(text.String()) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("a line is longer than a terminal is wide: %s", line)
		}
	}
	// Outside of code there is none of it.
	outside := true
	for line := range strings.Lines(markdown.String()) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			outside = !outside
			continue
		}
		spans := strings.Split(line, "`")
		for i := 0; outside && i < len(spans); i += 2 {
			if strings.Contains(spans[i], "evil") || strings.Contains(spans[i], "@all") ||
				strings.Contains(spans[i], "<script") {
				t.Errorf("what a node said is no code: %s", line)
			}
		}
	}
}

// TestCommandsStayWhole requires a note's commands in their own Markdown block, without wrapping, and conditional ones
// as comments.
func TestCommandsStayWhole(t *testing.T) {
	t.Parallel()
	long := "kubectl get nodes -o custom-columns='" + strings.Repeat("NAME:.metadata.name,", 12) + "' and more words"
	gone := swap
	gone.Fix.Manifest = []string{long}
	gone.Fix.OnlyIf = []probe.Conditional{
		{If: "the machine is gone for good", Manifest: []string{"kubectl delete node a"}},
	}
	w := &world{run: func(_ context.Context, node string, _ runbook.Run) (report.Run, error) {
		run := answer(node, map[string]probe.Status{"node-swap": probe.Fail}, gone)
		run.Add(probe.Event{
			Type: probe.EventResult, Node: node, Method: "ssh",
			Result: &probe.Result{Check: probe.CheckPlaced, Target: "ssh", Status: probe.Unknown, Saw: "no answer within 10s"},
		})
		return run, nil
	}}
	r := does(t, "  - name: look\n    run: {}\n  - name: left\n    when: verdict == \"healthy\"\n    note: x\n  - name: fix\n    note: |\n      do this:\n          ${causes[0].commands.join(\"\\n    \")}\n      it touches much\n", w)
	var markdown, text bytes.Buffer
	must.Do(t, runbook.WriteMarkdown(&markdown, r))
	for _, e := range r.Steps {
		must.Do(t, runbook.WriteEntry(&text, e))
	}
	if want := "  ```sh\n  " + long + "\n  # only if the machine is gone for good:\n  #   kubectl delete node a\n  ```\n"; !strings.Contains(markdown.String(), want) {
		t.Errorf("the ticket has no %q:\n%s", want, markdown.String())
	}
	for _, want := range []string{"look: calico-probe checked node a via pod: fault\n", "    ssh failed: no answer within 10s\n", "    " + long + "\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the screen has no %q:\n%s", want, text.String())
		}
	}
	if !strings.Contains(markdown.String(), "`verdict == \"healthy\"`") {
		t.Error("the ticket does not tell why a step was left out")
	}
}
