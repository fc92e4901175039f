package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestAnalyzeTranscript reads a transcript: its last answers, and its commands.
func TestAnalyzeTranscript(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name string, nodes ...string) string {
		name = filepath.Join(folder, name)
		tr := must.Get(report.Record(name))(t)
		for _, node := range nodes {
			for _, status := range []probe.Status{probe.Fail, probe.OK} {
				for _, ev := range []probe.Event{
					{Type: probe.EventTyped, Text: "run node-swap"},
					{Type: probe.EventRecheck, Start: &probe.Start{Checks: []string{"node-swap"}}},
					{Type: probe.EventStart, Method: "pod", Start: &probe.Start{V: 1}},
					{Type: probe.EventResult, Method: "pod", Result: &probe.Result{Check: "node-swap", Status: status, Saw: "looked"}},
					{Type: probe.EventEnd, Method: "pod", End: &probe.End{}},
					{Type: probe.EventDone},
				} {
					ev.Node = node
					must.Do(t, tr.Add(ev))
				}
			}
		}
		must.Do(t, tr.Close())
		return name
	}
	one, two, none := write("one", "node-a"), write("two", "node-a", "node-b"), write("none;x")
	run := saveRun(t, "node-a", true, probe.Result{Check: "node-swap", Status: probe.Fail, Saw: "looked"})
	for _, c := range []struct {
		args string
		exit int
		text string
	}{
		{"analyze " + one, 0, "healthy on node-a: no fault found; 1 ok"},
		{"analyze " + one + " -o json", 0, `"check": "node-swap"`},
		{"analyze " + two, 0, "healthy on node-b: no fault found; 1 ok"},
		{"analyze " + two + " -o json", 2, "hold only one run, but there are 2"},
		{"analyze " + none, 2, "that did not run any checks: 'calico-probe analyze --typed " + probe.Quote(none) + "' lists"},
		{"analyze --typed " + two, 0, "node-b  run node-swap "},
		{"analyze --typed " + run, 2, "only a session transcript has commands"},
		{"diff " + run + " " + one, 0, "1 better"},
		{"analyze " + two + " -o json --node node-b", 0, `"node": "node-b"`},
		{"analyze --typed -o json " + two, 2, "does not support -o"},
		{"diff " + run + " " + two, 2, "has several nodes (node-a, node-b): choose one, as in " + two + ":node-a"},
		{"diff " + run + " " + two + ":node-b", 0, "1 better"},
		{"diff " + run + " " + two + ":node-x", 2, "has no run of node-x, only of node-a, node-b"},
		{"diff " + run + " " + none, 2, "a session that did not run any checks"},
	} {
		exit, out, errs := call(t, strings.Fields(c.args)...)
		if exit != c.exit || !strings.Contains(out+errs, c.text) {
			t.Errorf("%s: exit %d, want %d with %q\n%s%s", c.args, exit, c.exit, c.text, out, errs)
		}
	}
	if _, out, _ := call(t, "analyze", "--typed", "--node", "node-b", two); strings.Contains(out, "node-a") ||
		strings.Count(out, "run node-swap") != 2 {
		t.Errorf("%s", out)
	}
	must.Do(t, os.WriteFile(filepath.Join(folder, "diary"), []byte("dear diary\n"), 0o600))
	if exit, _, errs := call(t, "shell", "--node", "node-a", "--transcript", filepath.Join(folder, "diary"), "-c",
		"why"); exit != 2 || !strings.Contains(errs, "is not a session transcript") {
		t.Errorf("exit %d %s", exit, errs)
	}
}

// TestAsFile requires that no file name in a message can be read as an option.
func TestAsFile(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"-": "-", "-x": "./-x", "--": "./--", "-a b": "'./-a b'",
		"a-b": "a-b", "=x": "'=x'"} {
		if got := asFile(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestExplainable requires an error for a wrong ID before anything is placed.
func TestExplainable(t *testing.T) {
	t.Parallel()
	for args, good := range map[string]bool{"bird-dead": true, "bgp-session": true, "bgp": true,
		"nonsense": false, "": false, "a b": false} {
		if err := explainable(strings.Fields(args)); (err == nil) != good {
			t.Errorf("%q: %v", args, err)
		}
	}
	if ids := lookups()[0].Complete(t.Context(), nil); !slices.Contains(ids, "node-lease") ||
		!slices.Contains(ids, "bird-dead") {
		t.Errorf("Tab offers %q", ids)
	}
}
