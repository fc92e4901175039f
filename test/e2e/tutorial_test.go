//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	reports "github.com/calico-probe/calico-probe/internal/report"
)

// TestTutorial runs every command of docs/tutorial.md in order on the tests' cluster, and requires the promised exit
// codes. It skips git clone and make demo, which set up the machine that runs this test.
func TestTutorial(t *testing.T) {
	slow(t)
	page := contents(t, file("docs/tutorial.md"))
	t.Cleanup(func() { mustSandbox(t, "fault", "heal") })
	var script strings.Builder
	var commands []string
	for i, block := range strings.Split(page, "```") {
		if i%2 == 0 {
			continue // prose
		}
		for command := range strings.Lines(strings.TrimSpace(block) + "\n") {
			command = strings.ReplaceAll(strings.TrimSpace(command), "worker-3", "node-b")
			if strings.HasPrefix(command, "git clone") || command == "make demo" {
				continue
			}
			if strings.HasPrefix(command, "bin/calico-probe shell") {
				command += " -c help" // without a terminal a session needs its commands
			}
			fmt.Fprintf(&script, "%s\necho \"EXIT $?\"\n", command)
			commands = append(commands, command)
		}
	}
	out := runTutorial(t, script.String())
	exits := regexp.MustCompile(`(?m)^EXIT (\d+)$`)
	answers := exits.Split(out, -1)
	for i, m := range exits.FindAllStringSubmatch(out, -1) {
		code, _ := strconv.Atoi(m[1]) // the expression has digits only
		want := reports.ExitHealthy
		switch {
		case strings.HasPrefix(commands[i], "bin/calico-probe analyze"), strings.HasSuffix(commands[i], "bad.ndjson"):
			want = reports.ExitFault
		}
		if code != want {
			t.Errorf("%s\nexit %d, want %d:\n%s", commands[i], code, want, answers[i])
		}
		if strings.HasSuffix(commands[i], "ndjson=bad.ndjson") && !strings.Contains(answers[i], "[input-closed") {
			t.Errorf("%s\ndoes not report dropped BGP packets:\n%s", commands[i], answers[i])
		}
	}
	if n := len(answers) - 1; n != len(commands) || n < 10 {
		t.Errorf("%d of %d commands ran:\n%s", n, len(commands), out)
	}
}

// runTutorial runs a script where bin and docs are those of the checkout, and its cluster is the tests'.
func runTutorial(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	own := fmt.Sprintf("#!/bin/sh\nverb=$1\nshift\nexec %s $verb --name %s \"$@\"\n", file("bin/sandbox"), clusterName)
	for _, err := range []error{
		os.Mkdir(bin, 0o700),
		os.Symlink(file("docs"), filepath.Join(dir, "docs")),
		os.Symlink(file("bin/calico-probe"), filepath.Join(bin, "calico-probe")),
		os.WriteFile(filepath.Join(bin, "sandbox"), []byte(own), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}
