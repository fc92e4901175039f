package cause

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// TestHistory wants a message of before the present state to be evidence of nothing, and not to be what a cause says.
func TestHistory(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]bool{"of before": true, "near: of now": false} {
		f := diagnose.Findings{Node: "node-b"}
		add := func(check string, r probe.Result) {
			r.Check = check
			f.Add(probe.Event{Type: probe.EventResult, Node: "node-b", Method: "pod", Result: &r})
		}
		add(felix.FelixLive.ID, probe.Found(probe.Fail, "refused").With(probe.FactReason, "refused"))
		line := probe.Found(probe.Info, "run 3 goes on; its last error was XYZ").With(probe.FactOfContainer, "calico-node").
			With(logs.FactLine, "XYZ").With(logs.FactEnded, false)
		event := probe.Found(probe.Info, "history: the kubelet reported: XYZ, 92s ago").On("kube-system/calico-node-x history")
		if old {
			line, event = line.With(probe.FactHistory, true), event.With(probe.FactHistory, true)
		}
		add(logs.CalicoLog.ID, line)
		add(facts.CheckCalicoPod, event)
		d := diagnose.Explain(f, All())
		if len(d.Causes) != 1 || d.Causes[0].ID != "felix-down" {
			t.Fatalf("%s: %+v", name, d.Causes)
		}
		told := strings.Contains(d.Causes[0].Says, "XYZ")
		for _, clue := range d.Causes[0].For {
			told = told || strings.Contains(clue.Saw, "XYZ")
		}
		if told == old {
			t.Errorf("%s: %+v", name, d.Causes[0])
		}
	}
}
