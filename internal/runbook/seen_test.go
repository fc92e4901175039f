package runbook_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestTalkativeNode makes nodes report more than a record holds. The record says that results are missing, and is not
// healthy. Each attempt of a wait has the room that earlier steps left.
func TestTalkativeNode(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.run = func(_ context.Context, node string, _ runbook.Run) (report.Run, error) {
		run := answer(node, healthy)
		if w.did["run "+node] < 3 {
			run = answer(node, map[string]probe.Status{"node-swap": probe.Fail})
		}
		for range 5000 {
			said := probe.Result{Check: "felix-live", Status: probe.OK, Saw: strings.Repeat("x", 1000)}
			run.Add(probe.Event{Type: probe.EventResult, Node: node, Result: &said})
		}
		return run, nil
	}
	r := does(t, `  - name: again
    wait: {run: {on: {names: [n1]}}, until: 'steps.again.verdict == "healthy"', within: 1m, every: 1ms}
  - name: more
    run: {on: {names: [n1]}}
`, w)
	if e := step(t, r, "again"); e.Tries != 3 || e.Asked[0].Lacks != "" || len(e.Asked[0].Results) != 5002 {
		t.Errorf("%d attempts: %q, %d results", e.Tries, e.Asked[0].Lacks, len(e.Asked[0].Results))
	}
	more := step(t, r, "more").Asked[0]
	n := len(more.Results)
	if !strings.HasPrefix(more.Lacks, "too many results") || more.Verdict != "incomplete" || n < 1000 || n > 4000 {
		t.Errorf("%s, %q, %d results", more.Verdict, more.Lacks, n)
	}
	if b, err := json.Marshal(r); err != nil || len(b) > 9<<20 {
		t.Errorf("the record has %d bytes, %v", len(b), err)
	}
}

// TestRowsSayTheirPod distinguishes a check on the node from the same check in a pod.
func TestRowsSayTheirPod(t *testing.T) {
	t.Parallel()
	asked := runbook.Asked{Node: "a", Verdict: "fault", Results: []runbook.Result{
		{Node: "a", Check: "service-clusterip", Target: "default/kubernetes", Status: "fail", Saw: "no answer"},
		{
			Node: "a", Check: "service-clusterip", Target: "default/kubernetes", From: "default/workload-a", Status: "fail",
			Saw: "no answer",
		},
	}}
	r := &runbook.Record{Runbook: "x", Node: "a", Steps: []runbook.Entry{{Kind: "run", Asked: []runbook.Asked{asked}}}}
	var text, markdown strings.Builder
	must.Do(t, errors.Join(runbook.WriteEntry(&text, r.Steps[0]), runbook.WriteMarkdown(&markdown, r)))
	for form, got := range map[string]string{"text": text.String(), "markdown": markdown.String()} {
		if strings.Count(got, "default/kubernetes") != 2 || strings.Count(got, "default/kubernetes from default/workload-a") != 1 {
			t.Errorf("%s: %s", form, got)
		}
	}
}
