package runbook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// silentZone is the result of a fleet run in which some nodes of one zone are silent.
func silentZone(nodes int, silent ...string) report.Fleet {
	out := report.Fleet{Verdict: &probe.Verdict{Word: report.WordHealthy}}
	for i := range nodes {
		n := report.FleetNode{Node: fmt.Sprintf("n%d", i), Verdict: &probe.Verdict{Word: report.WordHealthy}}
		if slices.Contains(silent, n.Node) {
			n.Word, out.Word = report.WordFault, report.WordFault
		}
		out.Nodes = append(out.Nodes, n)
	}
	if len(silent) > 0 {
		out.Groups = []probe.Group{{Cause: "kubelet-silent", Confidence: probe.Medium, Nodes: silent, Of: nodes,
			Common: &probe.Common{Attribute: "zone", Value: "b", Has: len(silent), Others: 1, OthersOf: nodes - len(silent)},
			Example: probe.Example{Node: silent[0], Cause: &probe.Cause{ID: "kubelet-silent", Confidence: probe.Medium,
				Says: silent[0] + "'s kubelet is silent", Fix: probe.Fix{Says: "look at the kubelet"}}}}}
	}
	return out
}

// fleetOf makes a world return this result.
func fleetOf(run report.Fleet, err error, asked *runbook.Fleet) func(*runbook.Engine) {
	return func(e *runbook.Engine) {
		e.World.Fleet = func(_ context.Context, f runbook.Fleet) (report.Fleet, error) { *asked = f; return run, err }
	}
}

// TestFleetStep reads the result of a fleet step, prints it, and does not repeat the step after a resume.
func TestFleetStep(t *testing.T) {
	t.Parallel()
	const steps = `
  - name: none
    ask: {question: which, default: ""}
  - name: everywhere
    fleet: {names: ["${node}", "${params.colour}", "${answers.none}", "${node}"], checks: [node-ready]}
  - name: here
    run: {}
  - when: steps.everywhere.cause("kubelet-silent") && "a" in first(steps.everywhere.groups).nodes && steps.everywhere.verdicts["a"] == "fault"
    conclude:
      verdict: fault
      says: "${first(steps.everywhere.groups).nodes.size()} of ${first(steps.everywhere.groups).of}: ${first(steps.everywhere.groups).common}"
`
	run := silentZone(5)
	run.Nodes[0].Node, run.Nodes[1].Node = "a", "b"
	run.Nodes[0].Word, run.Nodes[1].Word, run.Word = report.WordFault, report.WordFault, report.WordFault
	run.Groups = silentZone(5, "a", "b").Groups
	var asked runbook.Fleet
	r := does(t, steps, &world{}, fleetOf(run, nil, &asked))
	wantOutcome(t, r, "fault", report.ExitFault, "2 of 5: zone b: 2 of these 2 nodes, 1 of the other 3")
	if !slices.Equal(asked.Names, []string{"a", "red"}) || !slices.Equal(asked.Checks, []string{"node-ready"}) {
		t.Errorf("asked: %+v", asked)
	}
	var text, markdown bytes.Buffer
	e := step(t, r, "everywhere")
	must.Do(t, errors.Join(runbook.WriteEntry(&text, e), runbook.WriteMarkdown(&markdown, r)))
	for _, want := range []string{
		"judged 5 nodes: 2 fault, 3 healthy", "2 of 5 nodes: kubelet-silent (medium)", "in common: zone b",
	} {
		if !strings.Contains(text.String(), want) ||
			!strings.Contains(markdown.String(), strings.TrimPrefix(want, "judged ")) {
			t.Errorf("%q is not in\n%s\n%s", want, text.String(), markdown.String())
		}
	}
}

// TestFleetResumed takes the result of a fleet step from the journal.
func TestFleetResumed(t *testing.T) {
	t.Parallel()
	rb := loaded(t, `
  - name: everywhere
    fleet: {}
  - name: fixed
    ask: {question: "done?", options: [yes, no]}
  - conclude: {verdict: fault, says: "${first(steps.everywhere.groups).cause} on ${first(steps.everywhere.groups).nodes}"}
`)
	file, looks := filepath.Join(t.TempDir(), "journal"), 0
	goes := func(j *runbook.Journal, answers map[string]string) *runbook.Record {
		w := (&world{}).functions()
		w.Fleet = func(context.Context, runbook.Fleet) (report.Fleet, error) {
			looks++
			return silentZone(4, "n1", "n2"), nil
		}
		r, err := (&runbook.Engine{Runbook: rb, Journal: j, World: w, Answers: answers}).Do(t.Context())
		must.Do(t, errors.Join(err, j.Close()))
		fits(t, r)
		return r
	}
	j := must.Get(runbook.CreateJournal(file, headerOf(rb)))(t)
	first := goes(j, nil)
	j = must.Get(runbook.OpenJournal(file, true))(t)
	r := goes(j, map[string]string{"fixed": "yes"})
	wantOutcome(t, r, "fault", report.ExitFault, "kubelet-silent on n1, n2")
	one, _ := json.Marshal(first.Steps[0])
	two, _ := json.Marshal(r.Steps[0])
	if looks != 1 || string(one) != string(two) {
		t.Errorf("%d looks\n%s\n%s", looks, one, two)
	}
}

// TestFleetFails requires a failed fleet run to be an answer, a mistake to stop the runbook, and an interrupted run to
// be repeated.
func TestFleetFails(t *testing.T) {
	t.Parallel()
	const steps = `
  - name: everywhere
    fleet: {selector: zone=b}
  - conclude: {verdict: healthy, says: "lacks: ${steps.everywhere.lacks}"}
`
	var asked runbook.Fleet
	r := does(t, steps, &world{}, fleetOf(report.Fleet{}, errors.New("the API is away"), &asked))
	wantOutcome(t, r, "incomplete", report.ExitIncomplete, "lacks: the API is away")
	rb := loaded(t, steps)
	w := (&world{}).functions()
	w.Fleet = func(context.Context, runbook.Fleet) (report.Fleet, error) {
		return report.Fleet{}, runbook.Mistake{Err: errors.New("no node has these labels")}
	}
	_, err := (&runbook.Engine{Runbook: rb, Journal: runbook.NewJournal(headerOf(rb)), World: w}).Do(t.Context())
	if !errors.As(err, new(runbook.Mistake)) {
		t.Errorf("a mistake came to %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.Fleet = func(context.Context, runbook.Fleet) (report.Fleet, error) { cancel(); return silentZone(3, "n1"), nil }
	j := runbook.NewJournal(headerOf(rb))
	r, err = (&runbook.Engine{Runbook: rb, Journal: j, World: w}).Do(ctx)
	if err != nil || j.Ended || r.Outcome.Exit != 130 || r.Steps[0].Fleet != nil {
		t.Errorf("%v: %+v, %+v", err, r.Outcome, r.Steps)
	}
}

// TestManyNodes plays the built-in runbook: the node is one of many, is outside of a group, is alone, or nothing is
// wrong.
func TestManyNodes(t *testing.T) {
	t.Parallel()
	rb := builtin(t)[manyNodes]
	sick := answer("n1", map[string]probe.Status{"node-swap": probe.Fail}, swap)
	for branch, c := range map[string]struct {
		fleet   report.Fleet
		err     error
		verdict string
		says    string
	}{
		"many":     {silentZone(20, "n1", "n2", "n3"), nil, "fault", "3 of 20 nodes have the same fault: kubelet-silent: n1's kubelet is silent (zone b:"},
		"others":   {silentZone(20, "n2", "n3"), nil, "fault", "swap is on"},
		"alone":    {silentZone(20, "n1"), nil, "fault", "swap is on"},
		"healthy":  {silentZone(20), nil, "healthy", "the API shows no fault on any node"},
		"not-seen": {report.Fleet{}, errors.New("no right to list nodes"), "incomplete", "no right to list nodes"},
	} {
		w := (&world{run: func(context.Context, string, runbook.Run) (report.Run, error) { return sick, nil }}).functions()
		w.Fleet = func(context.Context, runbook.Fleet) (report.Fleet, error) { return c.fleet, c.err }
		b := headerOf(rb)
		b.Node = "n1"
		r := must.Get((&runbook.Engine{Runbook: rb, Journal: runbook.NewJournal(b), World: w}).Do(t.Context()))(t)
		fits(t, r)
		wantOutcome(t, r, c.verdict, map[string]int{"fault": 3, "healthy": 0, "incomplete": 5}[c.verdict], c.says)
		if got := step(t, r, "spread").Choice.Branch; got != branch {
			t.Errorf("branch %s, want %s", got, branch)
		}
		for _, text := range []string{r.Outcome.Says, r.Outcome.Next} {
			if strings.Contains(text, "(nothing:") {
				t.Errorf("%s: %s", branch, text)
			}
		}
	}
}
