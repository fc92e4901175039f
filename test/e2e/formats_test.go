//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/joshdk/go-junit"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/calico-probe/calico-probe/internal/nightfile"
	"github.com/calico-probe/calico-probe/probe"
)

var update = flag.Bool("update", false, "write what the recipes give")

// published is a schema as the program prints it, in a validator that is not ours.
func published(t *testing.T, name string) func(text string) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(call(t, "schema", name).stdout))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return func(text string) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			return err
		}
		return s.Validate(v)
	}
}

func contents(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestEveryFormatOfOneRun writes one run of a real node in every format, reads each with a third-party reader, and
// requires exit code 4 with --fail-on warn.
func TestEveryFormatOfOneRun(t *testing.T) {
	t.Cleanup(func() { mustSandbox(t, "fault", "heal") })
	mustSandbox(t, "fault", "inject", "swap-before-reboot")
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	// What a busy machine changes is left out.
	a := call(t, "run", "--node", "node-b", "--fail-on", "warn", "--checks", "node-swap,node-taints,felix-live,bgp-session,cni-config,docker-health", "-o", "json", "-o", "ndjson="+in("ndjson"), "-o", "yaml="+in("yaml"),
		"-o", "junit="+in("junit"), "-o", "markdown="+in("markdown"), "-o", "name="+in("name"), "-o", "table="+in("table"),
		"-o", "wide="+in("wide"))
	if a.exit != 4 || a.stderr != "" {
		t.Fatalf("exit %d, want 4\n%s%s", a.exit, a.stdout, a.stderr)
	}
	if err := published(t, "report")(a.stdout); err != nil {
		t.Error(err)
	}
	event := published(t, "event")
	for line := range strings.Lines(contents(t, in("ndjson"))) {
		if err := event(line); err != nil {
			t.Errorf("%v\n%s", err, line)
		}
	}
	var d document
	if err := json.Unmarshal([]byte(a.stdout), &d); err != nil {
		t.Fatal(err)
	}
	var same document
	if err := yaml.Unmarshal([]byte(contents(t, in("yaml"))), &same); err != nil || same.Verdict != d.Verdict ||
		len(same.Results) != len(d.Results) {
		t.Errorf("yaml: %v, %+v", err, same)
	}
	suites, err := junit.IngestFile(in("junit"))
	if err != nil || len(suites) != 1 || suites[0].Name != "node-b" {
		t.Fatalf("junit: %v %v", err, suites)
	}
	wrong := 0
	for _, c := range suites[0].Tests {
		if c.Status == junit.StatusFailed || c.Status == junit.StatusError {
			wrong++
		}
	}
	warned := len(slices.DeleteFunc(slices.Clone(d.Results),
		func(r located) bool { return r.Status != probe.Warn || r.Node != "" }))
	if wrong != warned || wrong == 0 {
		t.Errorf("junit has %d cases that failed, the report %d warnings", wrong, warned)
	}
	if !strings.Contains(suites[0].SystemOut, "swap-returns") {
		t.Errorf("junit names no cause: %s", suites[0].SystemOut)
	}
	for name, want := range map[string]string{
		"markdown": "[swap-returns, ", "name": "cause/swap-returns\n", "table": "[swap-returns, ",
		"wide": "[swap-returns, ",
	} {
		if got := contents(t, in(name)); !strings.Contains(got, want) {
			t.Errorf("%s lacks %q:\n%s", name, want, got)
		}
	}
	namesOwnCause(t)
	t.Logf("what is pasted into a ticket:\n%s", contents(t, in("markdown")))
	// The transcript of a session is the same stream.
	if a := call(t, "shell", "--node", "node-b", "--transcript", in("transcript"), "-c", "run node-swap; ping -c 1 10.88.0.11; why"); a.exit == 1 || a.exit == 2 {
		t.Errorf("shell: exit %d\n%s", a.exit, a.stderr)
	}
	types := map[probe.EventType]bool{}
	for line := range strings.Lines(contents(t, in("transcript"))) {
		var ev probe.Event
		if err := errors.Join(event(line), json.Unmarshal([]byte(line), &ev)); err != nil {
			t.Errorf("%v\n%s", err, line)
		}
		types[ev.Type] = true
	}
	for _, want := range []probe.EventType{
		probe.EventSession, probe.EventTyped, probe.EventDone, probe.EventRecheck, probe.EventOut, probe.EventResult,
	} {
		if !types[want] {
			t.Errorf("the transcript has no %s", want)
		}
	}
	// The results decide, not their format or filter.
	if a := call(t, "run", "--node", "node-b", "--checks", "node-swap", "-o", "jsonpath={.verdict}"); a.exit != 0 ||
		a.stdout != "warnings" {
		t.Errorf("without --fail-on: exit %d, %q", a.exit, a.stdout)
	}
	if a := call(t, "analyze", in("ndjson"), "-o", "name"); a.exit != 4 || a.stdout != contents(t, in("name")) {
		t.Errorf("analyzed: exit %d, %q", a.exit, a.stdout)
	}
}

// TestLimits requires that --timeout and --check-timeout end the run and the check, with their exit codes, and that a
// failed output does not affect other outputs.
func TestLimits(t *testing.T) {
	slow(t)
	file := filepath.Join(t.TempDir(), "report.json")
	// The API answers, and no access method works. Where the API does not either is
	// another test's (TestNoFileTellsOfAnEarlierRun), which is exit code 1.
	silent := filepath.Join(t.TempDir(), "ssh-config")
	if err := os.WriteFile(silent, []byte("Host *\n\tProxyCommand sh -c 'while read line; do :; done'\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	a := call(t, "run", "--node", "node-a", "--via", "ssh", "--ssh-config", silent, "--start-timeout", "5m", "--timeout",
		"10s", "-o", "json="+file)
	if a.exit != 5 || !strings.Contains(a.folded(), "--timeout 10s is over") ||
		!strings.Contains(contents(t, file), `"verdict": "incomplete"`) {
		t.Errorf("exit %d after %v\n%s%s", a.exit, a.took, a.stdout, a.stderr)
	}
	d, a := report(t, "run", "--node", "node-a", "--checks", "felix-live", "--check-timeout", "1ns")
	if a.exit != 5 {
		t.Errorf("exit %d, want 5\n%s", a.exit, a.stderr)
	}
	d.want(t, "felix-live", probe.Unknown)
	if a := call(t, "run", "--node", "node-a", "--via", "api", "-o", "ndjson=/dev/full", "-o",
		"json="+file); a.exit != 1 || !strings.Contains(a.stderr, "/dev/full") ||
		strings.Count(a.stderr, "\n") != 1 || !strings.Contains(a.stdout, "healthy") ||
		!strings.Contains(contents(t, file), `"healthy"`) {
		t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	nothingLeft(t)
}

// TestRecipes runs each command of docs/recipes.md on recorded nights, and requires the output that is documented below
// it.
func TestRecipes(t *testing.T) {
	folder := t.TempDir()
	for night, outputs := range map[string][]string{
		"003b-second-nic":      {"ndjson=night.ndjson", "json=night.json", "markdown=ticket.md"},
		"002-start-under-load": {"json=other.json"},
	} {
		b, err := os.ReadFile(nightfile.Path(night))
		if err != nil {
			t.Fatal(err)
		}
		stream := txtar.Parse(b).Files[1]
		cmd := client(t, "analyze", "-")
		for _, o := range outputs {
			cmd.Args = append(cmd.Args, "-o", o)
		}
		cmd.Dir, cmd.Stdin = folder, bytes.NewReader(stream.Data)
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 3 && cmd.ProcessState.ExitCode() != 5 {
			t.Fatalf("%s: %v\n%s", night, err, out)
		}
	}
	bin := filepath.Join(t.TempDir(), "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file("bin/calico-probe"), filepath.Join(bin, "calico-probe")); err != nil {
		t.Fatal(err)
	}
	page := contents(t, file("docs/recipes.md"))
	parts := strings.Split(page, "```sh\n")
	for i, part := range parts[1:] {
		command, rest, ok := strings.Cut(part, "\n```\n```text\n")
		want, _, ended := strings.Cut(rest, "```")
		if !ok || !ended {
			t.Fatalf("no output below %s", part)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir, cmd.Env = folder, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		var errs strings.Builder
		cmd.Stderr = &errs
		got, err := cmd.Output() // of a fault calico-probe exits with 3
		if len(got) == 0 || errs.Len() > 0 {
			t.Errorf("%s\n%v: %s", command, err, errs.String())
		}
		if *update {
			parts[i+1] = strings.Replace(part, "```text\n"+want+"```", "```text\n"+string(got)+"```", 1)
		} else if string(got) != want {
			t.Errorf("%s\ngives\n%swant\n%s", command, got, want)
		}
	}
	if *update {
		if err := os.WriteFile(file("docs/recipes.md"), []byte(strings.Join(parts, "```sh\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if len(parts) < 8 {
		t.Errorf("only %d recipes were found", len(parts)-1)
	}
}
