package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestIgnoredPodIsNamed requires that the default report names a pod that falsely claims to be calico-node, while other
// info results get no line.
func TestIgnoredPodIsNamed(t *testing.T) {
	t.Parallel()
	events := []probe.Event{
		{Type: probe.EventRun, Node: "node-a", Start: &probe.Start{V: 1, Version: "0.0.0", Run: "7f3a"}},
		{Type: probe.EventResult, Node: "node-a", Method: "api", Result: &probe.Result{
			Check: "calico-pod", Target: "tenant/decoy", Status: probe.Info, Saw: "calls itself calico-node"}},
		{Type: probe.EventResult, Node: "node-a", Method: "api", Result: &probe.Result{
			Check: "node-ready", Status: probe.Info, Saw: "nothing to read"}},
		{Type: probe.EventVerdict, Node: "node-a", Verdict: &probe.Verdict{Word: WordHealthy}},
	}
	for _, f := range Formats() {
		if f.Name != "table" && f.Name != "markdown" {
			continue
		}
		var out bytes.Buffer
		sink := must.Get(f.Sink(&out, Options{}))(t)
		for _, ev := range events {
			must.Do(t, sink.Event(ev))
		}
		got := out.String()
		if !strings.Contains(got, "tenant/decoy") || !strings.Contains(got, "calls itself") ||
			strings.Contains(got, "nothing to read") {
			t.Errorf("%s: %s", f.Name, got)
		}
	}
}
