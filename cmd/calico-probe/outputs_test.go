package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/report"
)

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestOutputs writes every format at once, and wants each file to be what stdout gets
// of it alone.
func TestOutputs(t *testing.T) {
	t.Parallel()
	bad := saveRun(t, "node-a", true, probe.Result{Check: "node-clock", Status: probe.Fail, Saw: "an hour late"})
	folder := t.TempDir()
	args := []string{"analyze", bad, "-o", "jsonpath={.verdict}"}
	for _, f := range report.Formats() {
		if f.Expr == "" {
			args = append(args, "-o", f.Name+"="+filepath.Join(folder, f.Name))
		}
	}
	if exit, out, errs := call(t, args...); exit != 3 || out != "fault" {
		t.Fatalf("exit %d, %q, %s", exit, out, errs)
	}
	for _, f := range report.Formats() {
		if f.Expr != "" {
			continue
		}
		_, alone, _ := call(t, "analyze", bad, "-o", f.Name)
		if got := read(t, filepath.Join(folder, f.Name)); got != alone || len(got) < 10 {
			t.Errorf("%s: %s\nwant %s", f.Name, got, alone)
		}
	}
	if left, err := filepath.Glob(filepath.Join(folder, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestOutputsOfAHealthyNode wants a file that had findings to be empty after a run without.
func TestOutputsOfAHealthyNode(t *testing.T) {
	t.Parallel()
	good := saveRun(t, "node-a", true, probe.Result{Check: "node-clock", Status: probe.OK, Saw: "right"})
	old := filepath.Join(t.TempDir(), "names")
	if err := os.WriteFile(old, []byte("check/node-clock\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := old + ".link"
	if err := os.Symlink(old, link); err != nil {
		t.Skip(err) // on Windows it takes a privilege
	}
	if exit, out, errs := call(t, "analyze", good, "-o", "name="+link); exit != 0 || !strings.Contains(out, "healthy") {
		t.Errorf("exit %d, %q, %s", exit, out, errs)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 || read(t, old) != "" {
		t.Errorf("%v %q", info.Mode(), read(t, old))
	}
}

// TestOutputsRefused wants what cannot be written to be said before anything is asked, in
// one line, and no file to be touched for it.
func TestOutputsRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	kept := filepath.Join(folder, "kept.ndjson")
	if err := os.WriteFile(kept, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, says string }{
		{"-o xml", "use one of table, wide, markdown, name, json, yaml, ndjson, junit, jsonpath=, go-template="},
		{"-o xml=" + folder + "/x", "unknown output format \"xml\""},
		{"-o table -o json", "both go to stdout"},
		{"-o json -o json=" + folder + "/a -o yaml", "both go to stdout"},
		{"-o json=", "names no file"}, {"-o json=-", "names no file"},
		{"-o json=" + folder + "/a -o yaml=" + folder + "/./a", "two formats for the file"},
		{"-o jsonpath", "takes an expression: -o jsonpath='{.verdict}'"}, {"-o go-template=", "takes an expression"},
		{"-o jsonpath=a.txt", "> FILE"}, {"-o jsonpath={.x", "unclosed"},
		{"-o ndjson=" + kept + " -o json=" + folder, "it is a folder"},
		{"-o ndjson=" + kept + " -o json=" + folder + "/none/x", "cannot be written"},
		{"-o ndjson=" + folder + "/none/x", "cannot be written"},
	} {
		for _, verb := range []string{"run --via local --node x --checks node-clock", "analyze " + kept} {
			exit, out, errs := call(t, strings.Fields(verb+" "+c.args)...)
			if exit != 2 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.says) {
				t.Errorf("%s %s: exit %d\n%s%s", verb, c.args, exit, out, errs)
			}
		}
	}
	if got := read(t, kept); got != "kept" {
		t.Errorf("the file is %q now", got)
	}
}

// fullDisk is a disk without room.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestALostOutputLosesNoOther has one output break after another.
func TestALostOutputLosesNoOther(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("has no /dev/full")
	}
	opened := func(stdout io.Writer, typed ...string) (*outputs, report.Sink) {
		o := &outputs{}
		o.flag(&cobra.Command{}, report.Formats())
		o.typed = typed
		if err := o.open(stdout); err != nil {
			t.Fatal(err)
		}
		sink, err := o.sink()
		if err != nil {
			t.Fatal(err)
		}
		return o, sink
	}
	verdict := probe.Event{Type: probe.EventVerdict, Node: "node-a", Verdict: &probe.Verdict{Word: "fault", Exit: 3}}
	file := filepath.Join(t.TempDir(), "report.json")
	var out bytes.Buffer
	o, sink := opened(&out, "ndjson=/dev/full", "json="+file)
	if err := sink.Event(verdict); err != nil {
		t.Error(err)
	}
	err := o.close(exit(3))
	if err == nil || errors.As(err, new(exit)) || !strings.Contains(err.Error(), "-o ndjson to /dev/full: ") || !strings.Contains(out.String(), "fault") || !strings.Contains(read(t, file), `"fault"`) {
		t.Errorf("%v, %q", err, out.String())
	}
	o, sink = opened(fullDisk{}, "json="+file)
	if err := sink.Event(verdict); err != nil {
		t.Error(err)
	}
	if err := o.close(exit(3)); err == nil || errors.As(err, new(exit)) || !strings.Contains(read(t, file), `"fault"`) {
		t.Error(err)
	}
	o, sink = opened(fullDisk{})
	err = sink.Event(verdict)
	if err == nil { // nobody hears: the run can end
		t.Error("a run goes on for nobody")
	}
	if err := o.close(err); err == nil || err.Error() != "-o table to stdout: no space left on device" {
		t.Error(err)
	}
	// A run that came to nothing leaves the document of the one before, and no half of its own.
	o, sink = opened(&out, "json="+file)
	if err := sink.Event(probe.Event{Type: probe.EventLog, Text: "x"}); err != nil {
		t.Error(err)
	}
	if err := o.close(errors.New("stopped")); err == nil || err.Error() != "stopped" || !strings.Contains(read(t, file), `"fault"`) {
		t.Error(err)
	}
}

// TestOutputCompletion offers formats with what they are for, and leaves files to the shell.
func TestOutputCompletion(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{"": "junit\tfor CI", "junit=": ":0", "jsonpath=": ":4"} {
		if exit, out, _ := call(t, "__complete", "run", "-o", typed); exit != 0 || !slices.ContainsFunc(strings.Split(out, "\n"), func(l string) bool { return strings.HasPrefix(l, want) }) {
			t.Errorf("%q: %s", typed, out)
		}
	}
}
