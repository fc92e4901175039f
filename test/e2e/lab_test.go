//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/probe"
)

// fault is one that the sandbox can make, and what one run has to make of it: the sandbox's own type has the words.
type fault struct {
	Name, Incident, Node string
	Shows                struct {
		Cause               string
		Early, With         []string
		API                 string
		Runbook, Branch     string
		Gate, Mild, Machine bool
	}
}

// thisSymptom is the branch of a runbook for a cause that makes its symptom.
const thisSymptom = "this-symptom"

// faults are all that the sandbox can make.
func faults(t *testing.T) []fault {
	t.Helper()
	var all []fault
	if err := json.Unmarshal([]byte(mustSandbox(t, "fault", "list", "json")), &all); err != nil || len(all) == 0 {
		t.Fatalf("%d faults: %v", len(all), err)
	}
	return all
}

// book is the runbook that is started on a fault and the branch it has to take, for people; "" for none.
func (f fault) book() string {
	switch {
	case f.Shows.Runbook == "":
		return ""
	case f.Shows.Branch == "":
		return "`" + f.Shows.Runbook + "`"
	}
	return fmt.Sprintf("`%s`: %s", f.Shows.Runbook, f.Shows.Branch)
}

// TestFaults injects each fault into a healthy cluster. One run must name its cause first, as soon as it shows, and no
// other cause with high confidence. A runbook for the symptom must take the matching branch, and after healing a run
// must be healthy. The results go to docs/faults.md.
func TestFaults(t *testing.T) { eachFault(t, false) }

// TestMachineFaults does the same with faults that affect every cluster on this machine: it must run alone.
func TestMachineFaults(t *testing.T) { eachFault(t, true) }

func eachFault(t *testing.T, machine bool) {
	for _, f := range faults(t) {
		if f.Shows.Machine != machine || testing.Short() && !f.Shows.Gate {
			continue
		}
		ran := t.Run(f.Name, func(t *testing.T) {
			row := oneFault(t, f)
			if row != "" {
				row = fmt.Sprintf("| `%s` | %s | %s", f.Name, f.Incident, row)
			}
			record(t, faultsPage, f.Name, f.Shows.Cause, row)
			if f.Incident != "" && !t.Failed() {
				if row = followsSkill(t, f); row != "" {
					row = fmt.Sprintf("| `%s` | %s | `%s` | %s |", f.Name, f.Incident, f.Shows.Runbook, row)
				}
				record(t, agentsPage, f.Name, f.Shows.Cause, row)
			}
		})
		if !ran { // what is left of it would be the next one's fault too
			mustSandbox(t, "fault", "heal")
		}
	}
}

// unfolds is how long a fault is given to show: under load, leases, BGP timers and
// Calico itself take their time to notice.
const unfolds = 90 * time.Second

// named runs the client for a report until its first cause is the one wanted, or the fault
// has had its time, and tells how many runs that took. A run before that may name nothing
// or be unsure; one that is sure of something else is wrong, and is not hidden by a later
// one: the test fails.
func named(t *testing.T, cause string, early []string, args ...string) (d document, a answer, runs int) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Second) {
		runs++
		d, a = report(t, args...)
		first := d.first()
		if first.ID == cause || time.Since(began) > unfolds {
			return d, a, runs
		}
		if first.Confidence == probe.High && !slices.Contains(early, first.ID) {
			t.Errorf("run %d is sure of another cause, %s: %s\n%s", runs, first.ID, first.Says, d)
		}
		t.Logf("not yet, after %v: %q first, %v\n%s", time.Since(began).Round(time.Second), first.ID, a.took, d)
	}
}

// oneFault returns the fault's row of the table, without its name.
func oneFault(t *testing.T, f fault) string {
	want, node := f.Shows, f.Node
	t.Cleanup(func() {
		mustSandbox(t, "fault", "heal")
		eventually(t, 3*time.Minute, func() string { // restarts back off, and BGP holds back, for longer than one would think

			// which is the machine's, not ours to heal
			a := call(t, "run", "--node", node, "--baselines", "0", "--skip", "node-load")
			if a.exit != 0 {
				return fmt.Sprintf("healed, and exit %d\n%s%s", a.exit, a.stdout, a.stderr)
			}
			return ""
		})
	})
	mustSandbox(t, "fault", "inject", f.Name)
	if want.API != "" {
		d, _, _ := named(t, want.API, want.Early, "run", "--node", node, "--via", "api")
		if first := d.first(); first.ID != want.API {
			t.Errorf("by the API alone: %s (%s), want %s\n%v", first.ID, first.Says, want.API, d.Results)
		}
	}
	args := append([]string{"run", "--node", node}, bySSH(t)...)
	if !want.Machine { // others keep the machine busy: a true cause, and not this one
		args = append(args, "--skip", "node-load")
	}
	d, a, runs := named(t, want.Cause, want.Early, args...)
	first := d.first()
	if first.ID != want.Cause {
		t.Errorf("the first cause is %q, want %s\n%s", first.ID, want.Cause, d)
	}
	for _, c := range d.Causes[min(1, len(d.Causes)):] {
		if c.Confidence == probe.High && !slices.Contains(want.With, c.ID) {
			t.Errorf("%s %s is claimed with high confidence too: %s", c.ID, c.About, c.Says)
		}
	}
	if len(first.For) == 0 || first.Fix.Says == "" || first.Fix.Radius == "" {
		t.Errorf("%s lacks evidence or a fix: %+v", first.ID, first)
	}
	if d.Exit == 0 && !want.Mild {
		t.Error("exit 0")
	}
	if want.Runbook != "" {
		goes(t, f)
	}
	if t.Failed() {
		return ""
	}
	keepScreen(t, f.Name, a.stdout)
	return strings.TrimSpace(fmt.Sprintf("`%s` | %s | %d | %v", first.ID, first.Confidence, runs, f.book())) + " |"
}

// goes starts an unattended runbook on a fault. It must take the expected branch, reach its run's conclusion, and name
// the cause in the record.
func goes(t *testing.T, f fault) {
	t.Helper()
	want, branch := f.Shows, cmp.Or(f.Shows.Branch, thisSymptom)
	markdown := filepath.Join(t.TempDir(), "record.md")
	for began := time.Now(); ; time.Sleep(time.Second) {
		r, a := followed(t, want.Runbook, append([]string{"--node", f.Node, "-o", "markdown=" + markdown}, bySSH(t)...)...)
		told, err := os.ReadFile(markdown)
		if err != nil {
			t.Fatal(err)
		}
		why := ""
		switch {
		case branchOf(r) != branch:
			why = fmt.Sprintf("it goes %q, want %q", branchOf(r), branch)
		case r.Outcome == nil || r.Outcome.Verdict != concludes(r) || a.exit != r.Outcome.Exit || r.Outcome.Next == "":
			why = fmt.Sprintf("exit %d, want that of %s, and what to do next: %+v", a.exit, concludes(r), r.Outcome)
		case !strings.Contains(string(told), want.Cause):
			why = "the record for people does not name " + want.Cause
		}
		if why == "" {
			return
		}
		if time.Since(began) > unfolds {
			t.Errorf("%s: %s\n%s\n%s", want.Runbook, why, told, a.stderr)
			return
		}
		t.Logf("not yet: %s: %s", want.Runbook, why)
	}
}

// concludes returns what a built-in runbook must conclude: its run's result, and before a reboot the causes that speak
// against it.
func concludes(r runbook.Record) string {
	if r.Runbook == "before-reboot" {
		return "fault"
	}
	for _, s := range r.Steps {
		if s.Kind == "run" && len(s.Asked) > 0 {
			return s.Asked[0].Verdict
		}
	}
	return "incomplete"
}

// followed runs a runbook to its end.
func followed(t testing.TB, name string, args ...string) (runbook.Record, answer) {
	t.Helper()
	a := call(t, append([]string{"runbook", "run", name, "-o", "json"}, args...)...)
	var r runbook.Record
	if err := json.Unmarshal([]byte(a.stdout), &r); err != nil {
		t.Fatalf("no record: %v\nstdout: %s\nstderr: %s", err, a.stdout, a.stderr)
	}
	return r, a
}

// branchOf returns the branch that a built-in runbook chose for the first cause.
func branchOf(r runbook.Record) string {
	for _, s := range r.Steps {
		if s.Name == "cause" && s.Choice != nil {
			return s.Choice.Branch
		}
	}
	return ""
}

// first returns the first cause, an empty one if there is no cause.
func (d document) first() probe.Cause {
	if len(d.Causes) == 0 {
		return probe.Cause{}
	}
	return d.Causes[0]
}

// tried are the ways that were tried, in order.
func (d document) tried() []string {
	var out []string
	add := func(way string) {
		if !slices.Contains(out, way) {
			out = append(out, way)
		}
	}
	add("api")
	for _, r := range d.Results {
		switch {
		case r.Check == "probe-placed" && r.Status == probe.Skip: // it says why it was not
		case r.Check == "probe-placed":
			add(cmp.Or(r.Target, r.Method))
		default:
			add(r.Method)
		}
	}
	return out
}

// String is what a person needs to see why a test failed.
func (d document) String() string {
	var b strings.Builder
	for _, c := range d.Causes {
		fmt.Fprintf(&b, "cause %s %s (%s): %s\n", c.ID, c.About, c.Confidence, c.Says)
	}
	for _, r := range d.Results {
		if r.Status == probe.Fail || r.Status == probe.Warn || r.Status == probe.Unknown {
			fmt.Fprintf(&b, "%s %s %v %v\n", r.Node, r.Method, r, r.Facts)
		}
	}
	return b.String()
}

// page is one that the lab writes: a head, and a row for each fault.
type page struct{ file, head string }

var faultsPage = page{"docs/faults.md", `# Faults, as runs name them

'make faults' writes this page. It creates each fault on the sandbox ('sandbox fault inject NAME'),
and ` + "`calico-probe run --node X`" + ` must name its cause. F1 to F7 are the field incidents that started this
project. Soon after a fault begins, a run may name no cause yet, or have low confidence. The table
shows the first run that named the cause. A run with high confidence in another cause fails the test.
If a row names a runbook, the runbook also ran on the fault, unattended, and took that branch.

| fault | incident | first cause named | confidence | by run | runbook and branch |
|---|---|---|---|---|---|
`}

var agentsPage = page{"docs/agents-trials.md", `# What an agent needs to find the cause

Written by 'make faults', without a language model. The sandbox creates each field incident for real. A program then
calls the tools of ` + "`calico-probe mcp`" + ` exactly as the skill of the incident's runbook prescribes
(` + "`calico-probe runbook skill NAME`" + `). It may use at most three calls and 6,000 tokens of answers (vocabulary o200k_base).
The test fails if one text has more than 2,000 tokens.

| fault | incident | skill of | first cause | calls | tokens |
|---|---|---|---|---|---|
`}

// record compares a fault's row on a page with its cause. With FAULTS=write it writes the row, or removes it if the
// fault failed (""), and removes rows of unknown faults.
func record(t *testing.T, p page, fault, cause, row string) {
	t.Helper()
	path := file(p.file)
	if os.Getenv("FAULTS") != "write" {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		there := func(line string) bool {
			name, _ := rowName(line)
			return name == fault && strings.Contains(line, "| `"+cause+"` |")
		}
		if row != "" && !slices.ContainsFunc(strings.Split(string(text), "\n"), there) {
			t.Errorf("%s has no row for %s with %s: 'make faults' writes it", p.file, fault, cause)
		}
		return
	}
	turn, err := os.OpenFile(file(".cache/faults.lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Close()
	if err := syscall.Flock(int(turn.Fd()), syscall.LOCK_EX); err != nil { // two suites may write
		t.Fatal(err)
	}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(old)) {
		if name, ok := rowName(line); ok {
			rows[name] = strings.TrimSpace(line)
		}
	}
	delete(rows, fault)
	if row != "" {
		rows[fault] = row
	}
	out := p.head
	for _, f := range faults(t) {
		if row := rows[f.Name]; row != "" {
			out += row + "\n"
		}
	}
	// Unit tests may read it meanwhile.
	if err := errors.Join(os.WriteFile(path+".new", []byte(out), 0o644), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

// keepScreen saves the JSON report of a fault with FAULTS=write, for the screens that package examine compares.
func keepScreen(t *testing.T, name, document string) {
	t.Helper()
	if os.Getenv("FAULTS") != "write" {
		return
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write([]byte(strings.ReplaceAll(document, file(".cache"), "/sandbox"))) // the machine's own path
	saved := file("internal/examine/testdata/screens/" + name + ".json.gz")
	if err := errors.Join(err, w.Close(), os.MkdirAll(filepath.Dir(saved), 0o755),
		os.WriteFile(saved, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// rowName is the fault a row of the table is about.
func rowName(row string) (string, bool) {
	rest, ok := strings.CutPrefix(row, "| `")
	if !ok {
		return "", false
	}
	name, _, ok := strings.Cut(rest, "`")
	return name, ok
}

// TestSoak runs repeatedly on a healthy cluster, and requires no result above info and no cause.
func TestSoak(t *testing.T) {
	runs, err := strconv.Atoi(cmp.Or(os.Getenv("SOAK"), "12"))
	if err != nil {
		t.Fatal(err)
	}
	settled(t)
	for i := range runs {
		d, a := report(t, "run", "--node", []string{"node-a", "node-b"}[i%2])
		if a.exit != 0 || len(d.Causes) > 0 || d.Verdict != "healthy" {
			t.Fatalf("run %d: %s, exit %d\n%s%s", i, d.Verdict, a.exit, d, a.stderr)
		}
	}
	t.Logf("%d runs, each healthy and without a cause", runs)
}
