package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/joshdk/go-junit"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

func read(t *testing.T, name string) string {
	t.Helper()
	b := must.Get(os.ReadFile(name))(t)
	return string(b)
}

// TestOutputs writes every format at once, and compares each file with that format on stdout.
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

// TestOutputsOfAHealthyNode requires a file with findings to be empty after a run without findings.
func TestOutputsOfAHealthyNode(t *testing.T) {
	t.Parallel()
	good := saveRun(t, "node-a", true, probe.Result{Check: "node-clock", Status: probe.OK, Saw: "right"})
	old := filepath.Join(t.TempDir(), "names")
	must.Do(t, os.WriteFile(old, []byte("check/node-clock\n"), 0o600))
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

// TestOutputsRefused requires one line for an output that cannot be written, before any request, and leaves all files
// unchanged.
func TestOutputsRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	kept := filepath.Join(folder, "kept.ndjson")
	must.Do(t, os.WriteFile(kept, []byte("kept"), 0o600))
	for _, c := range []struct{ args, says string }{
		{"-o xml", "use one of table, wide, markdown, name, json, yaml, ndjson, junit, html, jsonpath=, go-template="},
		{"-o xml=" + folder + "/x", "unknown output format \"xml\""},
		{"-o table -o json", "both go to stdout"},
		{"-o json -o json=" + folder + "/a -o yaml", "both go to stdout"},
		{"-o json=", "has no file name"}, {"-o json=-", "has no file name"},
		{"-o json=" + folder + "/a -o yaml=" + folder + "/./a", "would both be written to"},
		{"-o jsonpath", "takes an expression: -o jsonpath='{.verdict}'"}, {"-o go-template=", "takes an expression"},
		{"-o jsonpath=a.txt", "> FILE"}, {"-o jsonpath={.x", "unclosed"},
		{"-o ndjson=" + kept + " -o json=" + folder, "it is a folder"},
		{"-o ndjson=" + kept + " -o json=" + folder + "/none/x", "cannot be written"},
		{"-o ndjson=" + folder + "/none/x", "cannot be written"},
	} {
		for _, verb := range []string{"run --via local --checks node-clock", "analyze -"} {
			exit, out, errs := call(t, strings.Fields(verb+" "+c.args)...)
			want := 2
			if c.says == "cannot be written" || c.says == "it is a folder" { // right usage, and no such place
				want = 1
			}
			if exit != want || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.says) {
				t.Errorf("%s %s: exit %d\n%s%s", verb, c.args, exit, out, errs)
			}
		}
	}
	if got := read(t, kept); got != "kept" {
		t.Errorf("the file is %q now", got)
	}
}

// fullDisk is a writer without space.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestNoFileTellsOfAnEarlierRun requires that a failed run leaves no files of an earlier one.
func TestNoFileTellsOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // accepts the connection, but never answers
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing.Close()
	for _, c := range []struct{ args, says string }{
		{"run --node node-a --server http://" + deaf.Addr().String() + " --timeout 1s", "accepts connections but gave no answer in time"},
		{"run --node node-a --server http://" + refusing.Addr().String(), "connection refused"},
		{"preflight --node node-a --server http://" + refusing.Addr().String(), "connection refused"},
	} {
		folder := t.TempDir()
		args := strings.Fields(c.args)
		for _, f := range report.Formats() {
			if f.Expr != "" {
				continue
			}
			file := filepath.Join(folder, f.Name)
			must.Do(t, os.WriteFile(file, []byte("an older run's: healthy"), 0o600))
			args = append(args, "-o", f.Name+"="+file)
		}
		exit, out, errs := call(t, args...)
		if exit != 1 || out != "" || !strings.Contains(errs, c.says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d\n%s%s", c.args, exit, out, errs)
		}
		for _, f := range report.Formats() {
			if f.Expr != "" {
				continue
			}
			want := c.says
			if f.Name == "name" {
				want = "check/probe-answered\n"
			}
			if got := read(t, filepath.Join(folder, f.Name)); !strings.Contains(strings.Join(strings.Fields(got), " "),
				strings.TrimSpace(want)) || strings.Contains(got, "healthy") {
				t.Errorf("%s as %s: %s", c.args, f.Name, got)
			}
		}
		if exit, out, _ := call(t, "analyze", filepath.Join(folder, "json"), "-o",
			"jsonpath={.verdict}"); exit != 5 || out != "incomplete" {
			t.Errorf("%s: exit %d, %s", c.args, exit, out)
		}
		suites, err := junit.IngestFile(filepath.Join(folder, "junit"))
		if err != nil || len(suites) != 1 || suites[0].Totals.Error != 1 || suites[0].Totals.Passed > 0 {
			t.Errorf("%s: %v, %+v", c.args, err, suites)
		}
	}
}

// TestWhatIsReadIsNotWritten requires that -o never overwrites an input file.
func TestWhatIsReadIsNotWritten(t *testing.T) {
	t.Parallel()
	night := saveRun(t, "node-a", true, probe.Result{Check: "node-clock", Status: probe.Fail, Saw: "an hour late"})
	other, kept := saveRun(t, "node-b", true), read(t, night)
	folder := t.TempDir()
	symbolic, hard := filepath.Join(folder, "symbolic"), filepath.Join(folder, "hard")
	if err := errors.Join(os.Symlink(night, symbolic), os.Link(night, hard)); err != nil {
		t.Skip(err) // on Windows it takes a privilege
	}
	for _, args := range [][]string{
		{"analyze", night, "-o", "ndjson=" + night}, {"analyze", other, night, "-o", "markdown=" + symbolic}, {"analyze",
			symbolic, "-o", "json=" + hard},
		{"diff", night, other, "-o", "json=" + hard}, {"diff", other, night + ":node-a", "-o",
			"yaml=" + night}, {"runbook", "record", night, "-o", "ndjson=" + night},
		{"runbook", "run", night + ".yaml", "--node", "node-a", "-o", "markdown=" + night + ".yaml"},
	} {
		if args[1] == "run" {
			must.Do(t, os.WriteFile(args[2], []byte(aRunbook), 0o600))
		}
		exit, out, errs := call(t, args...)
		if exit != 2 || out != "" || !strings.Contains(errs, "is the input") {
			t.Errorf("%v: exit %d %s%s", args, exit, out, errs)
		}
	}
	if read(t, night) != kept || read(t, night+".yaml") != aRunbook {
		t.Error("it is gone")
	}
	// A file is also not written twice under different names.
	one := filepath.Join(folder, "one")
	if exit, _, errs := call(t, "analyze", night, "-o", "json="+one, "-o", "yaml="+one); exit != 2 ||
		!strings.Contains(errs, "would both be written to") {
		t.Errorf("exit %d %s", exit, errs)
	}
	must.Do(t, errors.Join(os.WriteFile(one, []byte("kept"), 0o600), os.Link(one, one+"2")))
	if exit, _, errs := call(t, "analyze", night, "-o", "ndjson="+one, "-o", "junit="+one+"2"); exit != 2 ||
		!strings.Contains(errs, "would both be written to") || read(t, one) != "kept" {
		t.Errorf("exit %d %s", exit, errs)
	}
	// A read error leaves no file behind.
	if exit, _, _ := call(t, "analyze", one, "-o", "json="+one+"3"); exit != 2 {
		t.Errorf("exit %d", exit)
	}
	if _, err := os.Stat(one + "3"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

const aRunbook = `apiVersion: calico-probe.io/v1alpha1
kind: Runbook
metadata: {name: of-a-test}
spec: {title: a test, steps: [{note: x}]}
`

// TestABrokenScreenLosesNoRecord requires a complete runbook file even if stdout fails.
func TestABrokenScreenLosesNoRecord(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	must.Do(t, os.WriteFile(in("own.yaml"), []byte(aRunbook), 0o600))
	for i, args := range [][]string{
		{"runbook", "run", in("own.yaml"), "--node", "node-a", "--server", "http://127.0.0.1:9", "--journal",
			in("journal")}, {"runbook", "record", in("journal")},
	} {
		file := in(fmt.Sprintf("record%d.md", i))
		var errs strings.Builder
		exit := Run(t.Context(), genericiooptions.IOStreams{In: strings.NewReader(""), Out: fullDisk{}, ErrOut: &errs},
			append(args, "-o", "markdown="+file))
		if exit != 1 || !strings.Contains(read(t, file), "runbook `of-a-test`") ||
			strings.Count(errs.String(), "no space left") != 1 {
			t.Errorf("%v: exit %d %s%s", args, exit, errs.String(), read(t, file))
		}
	}
}

// TestAFileStaysWhatItIs requires a file to keep its mode and its other names.
func TestAFileStaysWhatItIs(t *testing.T) {
	t.Parallel()
	night := saveRun(t, "node-a", true, probe.Result{Check: "node-clock", Status: probe.OK, Saw: "right"})
	file := filepath.Join(t.TempDir(), "report.json")
	if err := errors.Join(os.WriteFile(file, []byte(strings.Repeat("old", 1e5)), 0o600),
		os.Link(file, file+".link")); err != nil {
		t.Skip(err)
	}
	if exit, _, errs := call(t, "analyze", night, "-o", "json="+file); exit != 0 {
		t.Fatal(errs)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" ||
		read(t, file) != read(t, file+".link") || !json.Valid([]byte(read(t, file))) {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestSeveralNodesInOneJUnit writes several nodes into one JUnit file, as the format allows.
func TestSeveralNodesInOneJUnit(t *testing.T) {
	t.Parallel()
	bad := saveRun(t, "node-a", true, probe.Result{Check: "node-clock", Status: probe.Fail, Saw: "an hour late"})
	good := saveRun(t, "node-b", true, probe.Result{Check: "node-clock", Status: probe.OK, Saw: "right"})
	file := filepath.Join(t.TempDir(), "all.xml")
	exit, out, errs := call(t, "analyze", bad, good, "-o", "junit="+file)
	suites, err := junit.IngestFile(file)
	if exit != 3 || err != nil || len(suites) != 2 || suites[0].Name != "node-a" || suites[0].Totals.Failed != 1 ||
		suites[1].Name != "node-b" || suites[1].Totals.Passed != 1 || !strings.Contains(out, "node-b") {
		t.Errorf("exit %d, %v, %+v\n%s", exit, err, suites, errs)
	}
	if !strings.Contains(read(t, file), `<testsuites name="calico-probe" tests="2" failures="1" errors="0"`) {
		t.Error(read(t, file))
	}
}

// TestOutputCompletion completes formats with their purpose, and leaves files to the shell.
func TestOutputCompletion(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{"": "junit\tfor CI", "junit=": ":0", "jsonpath=": ":4"} {
		if exit, out, _ := call(t, "__complete", "run", "-o", typed); exit != 0 ||
			!slices.ContainsFunc(strings.Split(out, "\n"), func(l string) bool { return strings.HasPrefix(l, want) }) {
			t.Errorf("%q: %s", typed, out)
		}
	}
}

// TestReaderGone closes stdout before the first write. This is not a failure, and files are still written.
func TestReaderGone(t *testing.T) {
	t.Parallel()
	if os.Getenv("CALICO_PROBE_TEST_ARGS") != "" {
		os.Exit(Run(t.Context(), genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
			strings.Split(os.Getenv("CALICO_PROBE_TEST_ARGS"), " ")))
	}
	faulty := saveRun(t, "node-b", true, probe.Result{Check: "node-swap", Status: probe.Fail, Saw: "swap"})
	file := filepath.Join(t.TempDir(), "report.json")
	for args, want := range map[string]int{
		"analyze " + faulty: report.ExitPipe, "explain bgp-session": report.ExitPipe, "checks": report.ExitPipe,
		"schema event":                           report.ExitPipe,
		"analyze " + faulty + " -o json=" + file: report.ExitFault,
	} {
		r, w, err := os.Pipe()
		if err = errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReaderGone$")
		var errs bytes.Buffer
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "CALICO_PROBE_TEST_ARGS="+args), w, &errs
		_ = cmd.Run() // its exit code is looked at
		if got := cmd.ProcessState.ExitCode(); got != want || strings.Contains(errs.String(), "error:") {
			t.Errorf("%s: exit %d, want %d: %s", args, got, want, &errs)
		}
		_ = w.Close()
	}
	if b, err := os.ReadFile(file); err != nil || !bytes.Contains(b, []byte(`"node-swap"`)) {
		t.Errorf("the file: %v, %s", err, b)
	}
}
