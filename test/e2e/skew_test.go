//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	reports "github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
)

// skewed is the commit of the other version, whose probe lacks check packet-drops and tool drops. skewedImage is the
// name of its probe image.
const (
	skewed      = "4651e0c6687b0d45687976f2d319d6e0b2c13a97"
	skewedImage = "ghcr.io/calico-probe/probe:older"
)

// skewedChecks are checks that both versions have, and whose answers a busy machine does not change.
const skewedChecks = "node-ready,node-swap,node-sysctl,bird-socket,cni-nodename"

// older is a program of this repository, built from the sources of an older commit.
func older(t testing.TB, commit, program string) string {
	t.Helper()
	dir := t.TempDir()
	if err := exec.CommandContext(t.Context(), "git", "-C", file("."), "cat-file", "-e", commit).Run(); err != nil {
		t.Skipf("there is no commit %.8s to build an older version from: %v", commit, err)
	}
	out := filepath.Join(dir, "build", "linux-"+runtime.GOARCH, program)
	script := `git -C "$1" archive "$2" | tar -x -C "$3" && cd "$3" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w' -o "$4" "./cmd/$5"`
	cmd := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", script, "bash", file("."),
		commit, dir, out, program)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s of %.8s: %v\n%s", program, commit, err, text)
	}
	return out
}

// olderProbe loads the image of an older probe.
func olderProbe(t testing.TB, commit string) {
	t.Helper()
	cache := strings.TrimSuffix(older(t, commit, "probe"), filepath.Join("build", "linux-"+runtime.GOARCH, "probe"))
	tar := filepath.Join(t.TempDir(), "older.tar")
	made := exec.CommandContext(t.Context(), "go", "run", "-C", file("images"), ".", "-ref", skewedImage, "-plain",
		"-platform", "linux/"+runtime.GOARCH, "-cache", cache, "-o", tar, "probe")
	if text, err := made.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	mustSandbox(t, "load", tar)
}

// unforwarded breaks node-b, which any version of a probe sees.
func unforwarded(t *testing.T) {
	t.Helper()
	set := func(on string) { mustSandbox(t, "exec", "node-b", "--", "sysctl", "-qw", "net.ipv4.ip_forward="+on) }
	t.Cleanup(func() { set("1") })
	set("0")
}

// TestOlderProbe queries an older probe. A check that it lacks must be unknown, in one line, the verdict must never be
// healthy, and a fault must count.
func TestOlderProbe(t *testing.T) {
	slow(t)
	olderProbe(t, skewed)
	run := func(args ...string) []string {
		return append([]string{"run", "--image", skewedImage, "--checks", skewedChecks + ",packet-drops"}, args...)
	}
	shell := func(commands string) answer {
		return call(t, "shell", "--image", skewedImage, "--node", "node-a", "--via", "pod", "-c", commands)
	}
	d, a := report(t, run("--node", "node-a", "--via", "pod")...)
	d.want(t, "packet-drops", probe.Unknown, "has no such check")
	if a.exit != reports.ExitIncomplete {
		t.Errorf("exit %d\n%s%s", a.exit, d, a.stderr)
	}
	unforwarded(t)
	if _, a := report(t, run("--node", "node-b", "--via", "pod")...); a.exit != reports.ExitFault {
		t.Errorf("of a node with a fault: exit %d\n%s", a.exit, a.stderr)
	}
	f, a := fleetReport(t, run("--all-nodes")...)
	for _, n := range f.Nodes {
		want := map[string]string{"node-a": reports.WordIncomplete, "node-b": reports.WordFault}[n.Node]
		if n.Word != want {
			t.Errorf("%s is %s, want %s: %+v\n%s", n.Node, n.Word, want, n.Unexplained, a.stderr)
		}
	}
	known := shell("run node-swap; links; ping -c 1 10.88.0.1")
	if known.exit != 0 {
		t.Errorf("a session: exit %d\n%s%s", known.exit, known.stdout, known.stderr)
	}
	unknown := shell("run packet-drops; drops")
	if unknown.exit != reports.ExitIncomplete ||
		!strings.Contains(unknown.folded()+unknown.stderr, "its version differs") {
		t.Errorf("a session, of what it does not know: exit %d\n%s%s", unknown.exit, unknown.stdout, unknown.stderr)
	}
	nothingLeft(t)
}

// TestOlderClient has an older client query this version's probe. The client must understand all answers that it
// requested.
func TestOlderClient(t *testing.T) {
	slow(t)
	program := older(t, skewed, "calico-probe")
	ask := func(exit int, args ...string) {
		t.Helper()
		cmd := client(t, args...)
		cmd.Path = program
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != exit {
			t.Errorf("%v: exit %d, want %d\n%.3000s%s", args, got, exit, out.String(), errs.String())
		}
		if args[0] == "run" && !json.Valid(out.Bytes()) {
			t.Errorf("%v: no JSON: %.300s", args, out.String())
		}
	}
	run := func(args ...string) []string {
		return append([]string{"run", "--checks", skewedChecks, "-o", "json"}, args...)
	}
	ask(0, run("--node", "node-a", "--via", "pod")...)
	ask(0, run("--all-nodes")...)
	ask(0, "shell", "--node", "node-a", "--via", "pod", "-c", "run node-swap; links; ping -c 1 10.88.0.1")
	unforwarded(t)
	ask(reports.ExitFault, run("--node", "node-b", "--via", "pod")...)
	ask(reports.ExitFault, run("--all-nodes")...)
	nothingLeft(t)
}
