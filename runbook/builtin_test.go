package runbook_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/diagnose"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/runbook"
)

// known is what runbooks may name.
func known() runbook.Known {
	suite := append(cluster.Checks(nil), checks.All()...)
	k := runbook.Known{
		Selects: func(patterns []string) error { _, err := probe.Select(suite, patterns, nil); return err },
		Ways:    []string{"auto"},
	}
	for _, c := range suite {
		k.Checks = append(k.Checks, c.ID)
	}
	for _, rule := range diagnose.Rules() {
		k.Causes = append(k.Causes, rule.ID)
	}
	for _, p := range probe.Profiles() {
		k.Profiles = append(k.Profiles, string(p))
	}
	return k
}

// general is the runbook for what no other one is for.
const general = "node-trouble"

// builtin are the built-in runbooks by their names.
func builtin(t *testing.T) map[string]*runbook.Runbook {
	t.Helper()
	files, err := filepath.Glob("builtin/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no built-in runbooks: %v", err)
	}
	out := map[string]*runbook.Runbook{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := runbook.Load(name, text, known())
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.TrimSuffix(filepath.Base(name), ".yaml"); b.Metadata.Name != want {
			t.Errorf("%s calls itself %s", name, b.Metadata.Name)
		}
		out[b.Metadata.Name] = b
	}
	return out
}

// causes is the step of a built-in runbook that chooses by what was named first.
func causes(t *testing.T, b *runbook.Runbook) []runbook.Branch {
	t.Helper()
	for _, s := range b.Spec.Steps {
		if s.Name == "cause" {
			return s.Choose
		}
	}
	t.Fatalf("%s has no step called cause", b.Metadata.Name)
	return nil
}

var quoted = regexp.MustCompile(`"([a-z0-9-]+)"`)

// takes maps the causes that a runbook has a branch for to that branch.
func takes(t *testing.T, b *runbook.Runbook) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, branch := range causes(t, b) {
		if !strings.HasPrefix(branch.When, "causes[0].cause") {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(branch.When, -1) {
			if first, twice := out[m[1]]; twice {
				t.Errorf("%s: %s is a matter of %s, and of %s too", b.Metadata.Name, m[1], first, branch.Name)
			}
			out[m[1]] = branch.Name
		}
	}
	return out
}

// TestBuiltin holds that the built-in runbooks are alike in what is not about their
// symptom, and that no alert has two of them.
func TestBuiltin(t *testing.T) {
	t.Parallel()
	all := builtin(t)
	alerts := map[string]string{}
	model := all[general].Spec.Steps
	for name, b := range all {
		for _, alert := range b.Spec.Alerts {
			if other := alerts[alert]; other != "" {
				t.Errorf("the alert %s belongs to %s and to %s", alert, name, other)
			}
			alerts[alert] = name
		}
		if got := b.Spec.Steps; len(got) != len(model) || !reflect.DeepEqual(got[2:], model[2:]) {
			t.Errorf("%s does not end as %s does, from the fix on", name, general)
		}
		branches := causes(t, b)
		i := slices.IndexFunc(branches, func(b runbook.Branch) bool { return b.Name == "well" })
		if i < 0 || !reflect.DeepEqual(branches[i:i+3], causes(t, all[general])[:3]) {
			t.Errorf("%s does not tell well, not-seen and unexplained as %s does", name, general)
		}
		if last := branches[len(branches)-1]; last.Name != "other-fault" || last.When != "" {
			t.Errorf("%s has no branch for the other faults", name)
		}
	}
}

// TestEveryCauseHasABranch wants every rule in the general runbook, and every fault of the
// lab in one for its symptom too.
func TestEveryCauseHasABranch(t *testing.T) {
	t.Parallel()
	all := builtin(t)
	of := map[string]bool{}
	for name, b := range all {
		for id := range takes(t, b) {
			of[id] = of[id] || name != general
		}
	}
	for _, rule := range diagnose.Rules() {
		if takes(t, all[general])[rule.ID] == "" {
			t.Errorf("%s has no branch for %s", general, rule.ID)
		}
	}
	table, err := os.ReadFile("../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| ([^|]*) \\| `([a-z0-9-]+)`").FindAllStringSubmatch(string(table), -1)
	if len(rows) < 40 {
		t.Fatalf("%d faults in docs/faults.md", len(rows))
	}
	for _, row := range rows {
		if fault, cause := row[1], row[3]; !of[cause] {
			t.Errorf("no runbook for a symptom has a branch for %s, the cause of %s", cause, fault)
		}
	}
}

// night is a recorded run, as if it had just been made.
func night(t *testing.T, file string) report.Run {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var run report.Run
	f := diagnose.Findings{}
	for _, section := range txtar.Parse(text).Files {
		if section.Name != "stream" {
			continue
		}
		d := probe.NewDecoder(bytes.NewReader(section.Data))
		for {
			ev, err := d.Next()
			if err != nil {
				break
			}
			if ev.Node == "" {
				ev.Node = "node-a"
			}
			f.Add(ev)
			run.Add(ev)
		}
	}
	if len(run.Events) == 0 {
		t.Fatalf("%s has no stream", file)
	}
	run.Node = f.Node
	tally := report.NewTally()
	tally.Add(probe.Event{Type: probe.EventStart})
	for _, ev := range run.Events {
		if ev.Result != nil && ev.Node == run.Node {
			tally.Add(ev)
		}
	}
	tally.Add(probe.Event{Type: probe.EventEnd})
	run.Causes = diagnose.Explain(f, diagnose.Rules()).Causes
	for _, c := range run.Causes {
		tally.Add(probe.Event{Type: probe.EventCause, Cause: &c})
	}
	v := tally.Verdict(false)
	run.Verdict = &v
	return run
}

// played runs a runbook with nobody to ask, each of whose runs is the next of these; the
// last of them is that of all later ones.
func played(t *testing.T, b *runbook.Runbook, answers map[string]string, nights ...report.Run) (branch string, record *runbook.Record) {
	t.Helper()
	silent := func(string) {}
	e := runbook.Engine{
		Runbook: b, Answers: answers,
		Journal: runbook.NewJournal(runbook.Begun{Runbook: b.Metadata.Name, Node: nights[0].Node, Params: map[string]string{}}),
		World: runbook.World{
			Run: func(context.Context, string, runbook.Run) (report.Run, error) {
				tonight := nights[0]
				nights = nights[min(1, len(nights)-1):]
				return tonight, nil
			},
			Ask:      func(context.Context, runbook.Question) (string, error) { return "", runbook.ErrNobody },
			Confirm:  func(context.Context, runbook.Proposal) (bool, error) { return false, runbook.ErrNobody },
			Show:     func(runbook.Entry) error { return nil },
			Progress: silent, Say: silent,
		},
	}
	record, err := e.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fits(t, record)
	for _, s := range record.Steps {
		if s.Name == "cause" && s.Choice != nil {
			branch = s.Choice.Branch
		}
		if strings.Contains(s.Text, "(nothing:") {
			t.Errorf("%s, step %s: a text has no value: %s", b.Metadata.Name, s.Step, s.Text)
		}
	}
	if strings.Contains(record.Outcome.Says+record.Outcome.Next, "(nothing:") {
		t.Errorf("%s: the outcome has no value: %+v", b.Metadata.Name, *record.Outcome)
	}
	return branch, record
}

// TestNights plays every recorded night to every built-in runbook that has a branch for
// what was named first in it, and to the general one, and wants it taken; and what nobody
// has named told from what is well.
func TestNights(t *testing.T) {
	t.Parallel()
	all := builtin(t)
	files, err := filepath.Glob("../diagnose/testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded nights: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			tonight := night(t, file)
			for name, b := range all {
				if len(tonight.Causes) == 0 {
					if name == general {
						unnamed(t, b, tonight)
					}
					continue
				}
				first := tonight.Causes[0]
				want := takes(t, b)[first.ID]
				if want == "" {
					continue
				}
				branch, record := played(t, b, nil, tonight)
				if branch != want {
					t.Errorf("%s goes %s, want %s for %s", name, branch, want, first.ID)
				}
				if o := record.Outcome; o.Verdict != "fault" || o.Exit != report.ExitFault || o.Says != first.Says || o.Next != first.Fix.Says {
					t.Errorf("%s comes to %+v, and the cause is %s", name, *o, first.Says)
				}
			}
		})
	}
}

func unnamed(t *testing.T, b *runbook.Runbook, tonight report.Run) {
	t.Helper()
	want := map[string]struct{ branch, verdict string }{
		"healthy": {"well", "healthy"}, "warnings": {"well", "healthy"}, "incomplete": {"not-seen", "incomplete"}, "fault": {"unexplained", "fault"},
	}[tonight.Verdict.Word]
	branch, record := played(t, b, nil, tonight)
	if branch != want.branch || record.Outcome.Verdict != want.verdict {
		t.Errorf("%s with no cause: it goes %s and comes to %+v", tonight.Verdict.Word, branch, *record.Outcome)
	}
}

// TestMended plays a night in which the fault was mended meanwhile.
func TestMended(t *testing.T) {
	t.Parallel()
	all := builtin(t)
	ill, well := night(t, "../diagnose/testdata/cni-config-missing.txtar"), night(t, "../diagnose/testdata/healthy.txtar")
	well.Node = ill.Node
	for i := range well.Events {
		well.Events[i].Node = ill.Node
	}
	branch, record := played(t, all["pods-no-network"], map[string]string{"fixed": "done"}, ill, well)
	if o := record.Outcome; branch != "no-config" || o.Verdict != "healthy" || !strings.Contains(o.Says, ill.Causes[0].Says) {
		t.Errorf("it goes %s and comes to %+v", branch, *o)
	}
}

// TestMildIsNotMended wants a node that had only warnings not called well while what it
// warned of is there.
func TestMildIsNotMended(t *testing.T) {
	t.Parallel()
	b := builtin(t)["before-reboot"]
	mild := night(t, "../diagnose/testdata/003a-the-night-before.txtar")
	for i := range b.Spec.Steps {
		if w := b.Spec.Steps[i].Wait; w != nil {
			w.Within, w.Every = 1, 1 // nanoseconds
		}
	}
	_, record := played(t, b, map[string]string{"fixed": "done"}, mild)
	if o := record.Outcome; o.Verdict == "healthy" || !strings.Contains(o.Says, "is not well") {
		t.Errorf("it comes to %+v", *o)
	}
}

// TestBeforeRebootLooks wants no reboot called safe where nobody saw what it does to swap.
func TestBeforeRebootLooks(t *testing.T) {
	t.Parallel()
	b := builtin(t)["before-reboot"]
	tonight := night(t, "../diagnose/testdata/healthy.txtar")
	tonight.Events = slices.DeleteFunc(tonight.Events, func(ev probe.Event) bool { return ev.Result != nil && ev.Result.Check == checks.NodeSwap.ID })
	branch, record := played(t, b, nil, tonight)
	if branch != "not-looked" || record.Outcome.Exit != report.ExitIncomplete {
		t.Errorf("it goes %s and comes to %+v", branch, *record.Outcome)
	}
}

// TestActionsKubectl wants the one action proposed for the pod that was seen, to the
// cluster the runbook is about, and nothing started where that cluster cannot be told.
func TestActionsKubectl(t *testing.T) {
	t.Parallel()
	b := builtin(t)["pods-no-network"]
	ill := night(t, "../diagnose/testdata/cni-config-missing.txtar")
	silent := func(string) {}
	deed := func(not string) *runbook.Deed {
		e := runbook.Engine{
			Runbook: b, Actions: []string{"restart-calico-node"}, Commands: true,
			Journal: runbook.NewJournal(runbook.Begun{Runbook: b.Metadata.Name, Node: ill.Node, Params: map[string]string{}}),
			World: runbook.World{
				Kubectl: []string{"--kubeconfig=/nowhere", "--context=far"}, NoKubectl: not,
				Run:      func(context.Context, string, runbook.Run) (report.Run, error) { return ill, nil },
				Ask:      func(context.Context, runbook.Question) (string, error) { return "", runbook.ErrNobody },
				Confirm:  func(context.Context, runbook.Proposal) (bool, error) { return false, runbook.ErrNobody },
				Show:     func(runbook.Entry) error { return nil },
				Progress: silent, Say: silent,
			},
		}
		record, err := e.Do(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range record.Steps {
			if s.Deed != nil {
				return s.Deed
			}
		}
		t.Fatal("no action was come to")
		return nil
	}
	d := deed("")
	if got := strings.Join(d.Command, " "); !strings.HasPrefix(got, "kubectl --kubeconfig=/nowhere --context=far delete pod --namespace=kube-system calico-node-") {
		t.Errorf("its command: %s", got)
	}
	if d.NotRun == "" { // there is no such cluster, and nobody to confirm it
		t.Errorf("it was done: %+v", d)
	}
	if d := deed("a secret would show"); !strings.Contains(d.NotRun, "a secret would show") || d.DryRun != "" {
		t.Errorf("without a way to the cluster: %+v", d)
	}
}
