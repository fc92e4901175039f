//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/calico-probe/calico-probe/internal/runbook"
)

// bookOf writes a runbook of these steps to a file.
func bookOf(t testing.TB, name, steps string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".yaml")
	text := "apiVersion: calico-probe.io/v1alpha1\nkind: Runbook\nmetadata: {name: " + name + "}\nspec:\n  title: a test of the engine\n  steps:\n" + steps
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// labelled labels a node until the test is over.
func labelled(t testing.TB, node, label string) {
	t.Helper()
	set := func(value string) error {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, label, value)
		_, err := kube(t).CoreV1().Nodes().Patch(context.Background(), node, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{})
		return err
	}
	if err := set(`"yes"`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set("null"); err != nil {
			t.Error(err)
		}
	})
}

// TestRunbookEngine runs a runbook on several nodes, kills its client during a wait, and resumes it: first without the
// required answer, then with it. Completed steps must not run again, and the notification must be sent.
func TestRunbookEngine(t *testing.T) {
	var mu sync.Mutex
	var posted [][]byte
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			posted = append(posted, b)
		}
	}))
	defer hook.Close()
	t.Setenv("E2E_HOOK", hook.URL+"/x?token=s3cret")
	dir := t.TempDir()
	asked, journal := filepath.Join(dir, "asked"), filepath.Join(dir, "journal")
	file := bookOf(t, "engine", `  - name: both
    run: {checks: [node-ready, felix-live], on: {names: ["${node}", node-b, nowhere]}}
  - name: others
    run: {checks: [node-ready], via: api, on: {others: 1}}
  - name: tell
    notify: {webhook: {urlFrom: E2E_HOOK}}
  - name: own
    check: {id: own-check, asks: does it run once, command: [sh, -c, 'echo "$CALICO_PROBE_NODE" >>"$1"', sh, `+asked+`]}
  - name: there
    wait: {until: steps.there.verdicts.size() == 1, within: 2m, every: 5s, run: {checks: [node-ready], via: api, on: {selector: runbook-e2e}}}
  - name: go
    ask: {question: "go on with ${node}", options: [yes, no]}
  - conclude: {verdict: healthy, says: "${steps.both.verdicts.nowhere}, ${answers.go}"}
`)
	if a := call(t, "runbook", "lint", file); a.exit != 0 || a.stdout != "" ||
		!strings.HasSuffix(a.stderr, ": valid\n") {
		t.Fatalf("lint: %+v", a)
	}
	for who, c := range map[string]struct {
		exit  int
		says  string
		flags []string
	}{
		"no such node": {2, "nope", []string{"--node", "nope"}},
		"no right":     {1, "no right to list nodes", []string{"--node", "node-a", "--as", "joe"}},
	} {
		kept := filepath.Join(dir, "none")
		a := call(t, append([]string{"runbook", "run", file, "--journal", kept}, c.flags...)...)
		if _, err := os.Stat(kept); err == nil || a.exit != c.exit || !strings.Contains(a.stderr, c.says) ||
			strings.Count(a.stderr, "\n") != 1 {
			t.Errorf("%s: %+v, its journal: %v", who, a, err)
		}
		if who == "no right" && (!strings.Contains(a.stderr, "calico-probe preflight") ||
			!strings.Contains(a.stderr, "manifests")) {
			t.Errorf("it does not say what to do: %s", a.stderr)
		}
	}
	var errs heard
	cmd, _ := started(t, &errs, "runbook", "run", file, "--node", "node-a", "--journal", journal, "--baselines", "0")
	eventually(t, 60*time.Second, func() string {
		if b, err := os.ReadFile(journal); err != nil || !strings.Contains(string(b), `"key":"5"`) {
			return fmt.Sprintf("it does not wait yet: %v\n%s", err, errs.String())
		}
		return ""
	})
	time.Sleep(6 * time.Second) // an attempt or two
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("a client that was killed ended well")
	}
	resume := "calico-probe runbook run --resume " + journal
	if !strings.Contains(errs.String(), resume) {
		t.Errorf("it did not say how to go on: %s", errs.String())
	}
	told := call(t, "runbook", "record", journal)
	if !strings.Contains(told.stdout, "the journal ends at there") {
		t.Errorf("its record: %+v", told)
	}

	labelled(t, "node-b", "runbook-e2e")
	a := call(t, "runbook", "run", "--resume", journal)
	if a.exit != 5 || !strings.Contains(strings.Join(strings.Fields(a.stdout), " "), "use --answer go=TEXT") ||
		!strings.Contains(a.stderr, "to resume: "+resume) {
		t.Fatalf("nobody was there to answer: %+v", a)
	}
	if a := call(t, "runbook", "run", "--resume", journal, "--answer", "go=perhaps"); a.exit != 2 ||
		strings.Count(a.stderr, "\n") != 1 {
		t.Errorf("an answer that is none: %+v", a)
	}
	if a := call(t, "runbook", "run", "--resume", journal, "--kubeconfig", "/nowhere"); a.exit == 0 || a.exit == 5 {
		t.Errorf("without its cluster: %+v", a)
	}
	ticket := filepath.Join(dir, "ticket.md")
	a = call(t, "runbook", "run", "--resume", journal, "--answer", "go=y", "-o", "json", "-o", "markdown="+ticket)
	var r runbook.Record
	if err := json.Unmarshal([]byte(a.stdout), &r); err != nil || a.exit != 0 || r.Outcome.Says != "incomplete, yes" {
		t.Fatalf("it came to %+v (%v)\n%s", r.Outcome, err, a.stderr)
	}
	both := r.Steps[0].Asked
	if len(both) != 3 || len(both[0].Methods) < 2 || len(both[1].Methods) < 2 ||
		!strings.Contains(both[2].Lacks, "nowhere") {
		t.Errorf("three nodes were asked: %+v", both)
	}
	if others := r.Steps[1].Asked; len(others) != 1 || others[0].Node != "node-b" {
		t.Errorf("another one that is ready: %+v", others)
	}
	if b, err := os.ReadFile(asked); err != nil || string(b) != "node-a\n" {
		t.Errorf("its own check was asked again: %q %v", b, err)
	}
	if len(posted) != 1 || !strings.Contains(string(posted[0]), `"node":"node-b"`) {
		t.Errorf("the webhook had %q", posted)
	}
	text, err := os.ReadFile(journal)
	if err != nil || strings.Contains(string(text)+a.stdout, "s3cret") {
		t.Errorf("the token stands in the journal or in the record: %v", err)
	}
	if b, err := os.ReadFile(ticket); err != nil || !strings.HasPrefix(string(b), "**healthy** (exit code 0): runbook `engine` on node `node-a`") {
		t.Errorf("the ticket: %s %v", b, err)
	}
	if a := call(t, "runbook", "run", "--resume", journal); a.exit != 2 ||
		!strings.Contains(a.stderr, "is the journal of a finished runbook") {
		t.Errorf("gone on with after its end: %+v", a)
	}
}

// TestRunbookAction runs an allowed action on a terminal: the runbook shows the dry run, and the user must type the
// action's name.
func TestRunbookAction(t *testing.T) {
	slow(t)
	dir := t.TempDir()
	book := bookOf(t, "mend", `  - name: look
    run: {checks: [node-ready], via: api}
  - name: who
    ask: {question: who is it, default: me}
  - name: mend
    action:
      says: makes a file
      touches: nothing else
      dryRun: [echo, it would make, a-file]
      command: [touch, "`+dir+`/${answers.who}"]
`)
	p := newScreen(t)
	run := file("bin/calico-probe") + " runbook run " + book + " --node node-a "
	made := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }

	p.enter(run)
	p.wants("who is it [Enter = me]")
	p.press("Enter")
	p.wants("--allow-actions")
	p.wants("healthy (exit code 0)")

	p.anew(run + "--allow-actions mend")
	p.wants("who is it")
	p.enter("ann")
	p.wants("it would make a-file")
	p.wants("to do it, type mend:")
	p.enter("yes")
	p.wants("is not the name of the step")
	p.enter("no")
	p.wants("not confirmed")
	if made("me") || made("ann") {
		t.Error("it was done without being confirmed")
	}

	p.anew(run + "--allow-actions mend")
	p.wants("who is it")
	p.enter("bob")
	p.wants("to do it, type mend:")
	p.press("C-c")
	p.wants("to resume:")
	if made("bob") {
		t.Error("it was done although it was interrupted")
	}
	p.anew(run + "--allow-actions mend")
	p.wants("who is it")
	p.enter("eve")
	p.wants("to do it, type mend:")
	p.enter("mend")
	p.wants("confirmed by")
	if !made("eve") {
		t.Error("it was not done")
	}
}

// TestRunbookKilledInAction has an action kill its own client. The record must not claim that the action completed or
// failed. Who resumes the runbook must be warned, and the action must not run again.
func TestRunbookKilledInAction(t *testing.T) {
	slow(t)
	did := filepath.Join(t.TempDir(), "did")
	book := bookOf(t, "mend", `  - name: look
    run: {checks: [node-ready], via: api}
  - name: mend
    action:
      says: writes a line
      touches: nothing else
      dryRun: [echo, it would write]
      keep: [[kubectl, get, node, node-a, "-o=name"]]
      command: [sh, -c, 'echo begun >>"$1"; kill -9 $PPID; sleep 1; echo ended >>"$1"', sh, "`+did+`"]
`)
	p := newScreen(t, "PATH="+file(".cache/bin")+":"+os.Getenv("PATH"))
	journal := p.file("journal")
	p.client("runbook run " + book + " --node node-a --allow-actions mend --journal " + journal)
	p.wants("to do it, type mend:")
	if shown := p.shows(); !strings.Contains(shown, "node/node-a") {
		t.Errorf("what is kept is not shown:\n%s", shown)
	}
	p.enter("mend")
	p.left(137)
	eventually(t, 60*time.Second, func() string { // the client is dead, and what it began goes on
		if b, err := os.ReadFile(did); err != nil || string(b) != "begun\nended\n" {
			return fmt.Sprintf("%q %v", b, err)
		}
		return ""
	})
	const unsure = "UNKNOWN whether it ran"
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	if a := call(t, "runbook", "record", journal); a.exit != 0 || !strings.Contains(words(a.stdout), unsure) || !strings.Contains(words(a.stdout), "saved before it ran: kubectl get node") {
		t.Errorf("its record: %+v", a)
	}

	p.client("runbook run --resume " + journal)
	p.wants("to do it, type mend:")
	if shown := words(p.shows()); !strings.Contains(shown, "CAUTION: it may have been done already: it started at") {
		t.Errorf("who goes on is not told:\n%s", shown)
	}
	p.enter("no")
	p.left(0)
	if shown := words(p.shows()); !strings.Contains(shown, "NOT run: not confirmed") || !strings.Contains(shown,
		unsure+" before: it started at") {
		t.Errorf("it says:\n%s", shown)
	}
	if b, err := os.ReadFile(did); err != nil || string(b) != "begun\nended\n" {
		t.Errorf("it was done again: %q %v", b, err)
	}
}
