package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// saveRun writes a run of one node in the format of -o ndjson.
func saveRun(t *testing.T, node string, whole bool, results ...probe.Result) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), node+".ndjson")
	f := must.Get(os.Create(name))(t)
	defer f.Close()
	sink := must.Get(report.New("ndjson", f, false))(t)
	tally := report.NewTally()
	show := func(ev probe.Event) {
		ev.Node, ev.Method = node, "pod"
		tally.Add(ev)
		must.Do(t, sink.Event(ev))
	}
	show(probe.Event{Type: probe.EventStart, Start: &probe.Start{V: 1, Version: "0.0.1"}})
	for _, r := range results {
		show(probe.Event{Type: probe.EventResult, Result: &r})
	}
	show(probe.Event{Type: probe.EventEnd, End: &probe.End{}})
	if whole {
		show(probe.Event{Type: probe.EventCause, Cause: &probe.Cause{ID: "of-old", Confidence: probe.High}})
		v := tally.Verdict(true)
		show(probe.Event{Type: probe.EventVerdict, Verdict: &v})
	}
	return name
}

func call(t *testing.T, args ...string) (exit int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	exit = Run(t.Context(), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &o, ErrOut: &e}, args)
	return exit, o.String(), e.String()
}

func TestAnalyze(t *testing.T) {
	good := probe.Result{Check: "node-swap", Status: probe.OK, Saw: "no swap"}
	bad := probe.Result{Check: "node-clock", Status: probe.Fail, Saw: "an hour late"}
	warned := probe.Result{Check: "node-load", Status: probe.Warn, Saw: "busy"}
	healthy := saveRun(t, "node-a", true, good, probe.Result{Check: "node-clock", Status: probe.OK, Saw: "right"})
	faulty, cut, strict := saveRun(t, "node-b", true, good, bad), saveRun(t, "node-c", false,
		good), saveRun(t, "node-d", true, warned)
	for _, c := range []struct {
		args  string
		exit  int
		texts []string
	}{
		{healthy, 0, []string{"healthy on node-a: no fault found; 2 ok", "named of-old (high); the rules of this version"}},
		{faulty, 3, []string{"fault on node-b: the node's clock is wrong [clock-wrong, medium]"}},
		{strict, 4, []string{"warnings on node-d: no fault, 1 warning"}},
		{cut, 5, []string{"the saved run is incomplete: it ends before its verdict", "incomplete on node-c: no verdict: 1 answer missing; 1 unknown"}},
		{cut + " " + faulty + " " + healthy, 3, []string{"healthy on node-a", "fault on node-b", "incomplete on node-c"}},
		{"/nonexistent", 2, []string{"no such file"}},
		{"-", 2, []string{"stdin is not a file of"}},
		{"", 2, []string{"takes saved run files"}},
		{healthy + " -o xml", 2, []string{"unknown output format"}},
		{healthy + " " + faulty + " -o ndjson", 2, []string{"-o ndjson can hold only one run"}},
		{healthy + " " + faulty + " -o json", 2, []string{"-o json can hold only one run", "choose one of node-a, node-b with --node"}},
		{healthy + " " + healthy + " -o json", 2, []string{"-o json can hold only one run", "one file at a time"}},
		{healthy + " " + faulty + " --node node-a", 0, []string{"healthy on node-a: no fault found; 2 ok"}},
		{healthy + " " + faulty + " --node node-b", 3, []string{"fault on node-b"}},
		{healthy + " --node node-x", 2, []string{"no saved run of node-x, only of node-a"}},
	} {
		exit, out, errs := call(t, append([]string{"analyze"}, strings.Fields(c.args)...)...)
		for _, text := range c.texts {
			if exit != c.exit || !strings.Contains(strings.Join(strings.Fields(out+errs), " "), text) {
				t.Errorf("%s: exit %d, want %d with %q:\n%s%s", c.args, exit, c.exit, text, out, errs)
			}
		}
	}
	if exit, out, errs := call(t, "diff", healthy, faulty); exit != 3 || !strings.Contains(out, "1 worse, 0 better") || !strings.Contains(out, "fail, on node-a ok: an hour late") {
		t.Errorf("exit %d\n%s%s", exit, out, errs)
	}
	if exit, out, _ := call(t, "diff", faulty, faulty, "-o", "json"); exit != 0 ||
		!strings.Contains(out, `"changes": []`) {
		t.Errorf("exit %d\n%s", exit, out)
	}
	if exit, out, _ := call(t, "diff", healthy, faulty, "-o", "yaml"); exit != 3 || !strings.Contains(out, "\nchanges:\n- check: node-clock\n") {
		t.Errorf("exit %d\n%s", exit, out)
	}
	if exit, out, errs := call(t, "diff", healthy, cut); exit != 5 || !strings.Contains(out, "0 worse") || !strings.Contains(out, "not answered by B: node-clock") {
		t.Errorf("exit %d\n%s%s", exit, out, errs)
	}
	for _, args := range [][]string{{"diff", healthy}, {"diff", healthy, faulty, "-o", "wide"},
		{"diff", "node-a", "node-b"}, {"diff", healthy + ":node-x", faulty}} {
		if exit, _, errs := call(t, args...); exit != 2 {
			t.Errorf("%v: exit %d %s", args, exit, errs)
		}
	}
}

// TestFolderIsNoRun requires that a folder with a node's name is not read as a saved run.
func TestFolderIsNoRun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "night.ndjson")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	for name, want := range map[string]string{folder: "", file: file + " ", "-": "- ",
		filepath.Join(folder, "worker-3"): "", file + ":worker-3": file + " worker-3", "-:a": "- a", folder + ":a": ""} {
		if s, err := savedAs(name); (err != nil) != (want == "") || (s.file != "") != (want != "") || want != "" &&
			s.file+" "+s.node != want {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
