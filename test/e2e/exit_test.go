//go:build e2e

package e2e

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	reports "github.com/calico-probe/calico-probe/internal/report"
)

// TestExitCodes has the program exit with each code of docs/README.md, for each reason listed there. Only code 5
// (consent for many probes) is missing: it needs more than 20 nodes, and package main tests it.
func TestExitCodes(t *testing.T) {
	healthy := []string{"run", "node-a", "--skip", "node-load,startup-budget"}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	dead := write("dead", `{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":`+
		`{"cluster":"x"}}],"clusters":[{"name":"x","cluster":{"server":"https://127.0.0.1:1"}}]}`)
	good := call(t, append(healthy, "-o", "ndjson")...).stdout
	if strings.Count(good, `"check":"node-swap","status":"ok"`) != 1 {
		t.Fatalf("no good answer to alter:\n%s", good)
	}
	altered := func(run, status string) string {
		return strings.Replace(run, `"check":"node-swap","status":"ok"`, `"check":"node-swap","status":"`+status+`"`, 1)
	}
	warned, unanswered := write("warned", altered(good, "warn")), write("unanswered", altered(good, "unknown"))
	strict := write("strict", altered(call(t, append(healthy, "--fail-on", "warn", "-o", "ndjson")...).stdout, "warn"))
	exits := func(args ...string) func(*testing.T) int {
		return func(t *testing.T) int { return call(t, args...).exit }
	}
	tried := map[int]map[string]func(*testing.T) int{
		0: {"healthy": exits(healthy...), "warnings": exits("analyze", warned)},
		1: {
			"the API is unreachable":  exits("run", "node-a", "--kubeconfig", dead),
			"a full disk":             exits(append(healthy, "-o", "json=/dev/full")...),
			"no folder for an output": exits(append(healthy, "-o", "json=/nonexistent/x.json")...),
		},
		2: {"no such file": exits("analyze", "/nonexistent/x.json"), "a file without a run": exits("analyze", dead),
			"an unknown flag": exits("run", "--nod", "node-a"), "no such node": exits("run", "node-c"),
			"an unknown topic": exits("help", "nonsense")},
		3:   {"a fault": exits("analyze", file("docs/example.ndjson"))},
		4:   {"warnings with --fail-on warn": exits("analyze", strict)},
		5:   {"a missing answer": exits("analyze", unanswered)},
		130: {"Ctrl-C": signalled(syscall.SIGINT)},
		141: {"a closed pipe": func(t *testing.T) int {
			cmd, out := started(t, nil, append(healthy, "-o", "ndjson")...)
			waitFor(t, out, "\n")
			if err := out.(io.Closer).Close(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			return cmd.ProcessState.ExitCode()
		}},
		143: {"SIGTERM": signalled(syscall.SIGTERM)},
	}
	for _, c := range reports.ExitCodes() {
		if len(tried[c.Code]) == 0 {
			t.Errorf("nothing exits with %d (%s)", c.Code, c.Means)
		}
	}
	for _, code := range slices.Sorted(maps.Keys(tried)) {
		for name, exit := range tried[code] {
			t.Run(name, func(t *testing.T) {
				if got := exit(t); got != code {
					t.Errorf("exit %d, want %d", got, code)
				}
			})
		}
	}
	nothingLeft(t)
}

// signalled runs the client until its probe answers and sends it a signal.
func signalled(sig syscall.Signal) func(*testing.T) int {
	return func(t *testing.T) int {
		cmd, out := started(t, nil, "run", "node-a", "--via", "pod", "-o", "ndjson")
		waitFor(t, out, `"way":"pod"`)
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
}
