//go:build e2e

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/calico-probe/calico-probe/probe"
)

// lying is the image of a probe that lies about node-a, see test/e2e/liar, and is the real one on
// any other node.
const lying = "ghcr.io/calico-probe/probe:liar"

// liesOn loads it once.
var liesOn = sync.OnceValue(func() error {
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", file(".cache/build/liar"), "./liar")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	folder, err := os.MkdirTemp("", "liar")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	tar := filepath.Join(folder, "liar.tar")
	for _, cmd := range []*exec.Cmd{
		build, exec.Command("go", "run", "-C", file("images"), ".", "-ref", lying, "-plain", "-o", tar, "liar"),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", cmd.Args, err, out)
		}
	}
	_, err = sandbox("load", "--name", clusterName, tar)
	return err
})

func lies(t *testing.T) {
	t.Helper()
	if err := liesOn(); err != nil {
		t.Fatal(err)
	}
	nodeReady(t, "node-a")
}

// unsteered requires that a text cannot control a terminal.
func unsteered(t *testing.T, text string) {
	t.Helper()
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }); i >= 0 {
		t.Errorf("it steers a terminal: %q", text[max(0, i-60):min(len(text), i+60)])
	}
	if strings.Contains(text, "\nforged") {
		t.Errorf("it has a line that a node made:\n%s", text)
	}
}

// reasonOf is why an answer of a node is incomplete.
func (d document) reasonOf(node string) string {
	for _, r := range d.Results {
		if r.Check == probe.CheckAnswered && r.Node == node && r.Status == probe.Unknown {
			return cmp.Or(r.Facts.Str(probe.FactReason), "none")
		}
	}
	return ""
}

// TestLiarForges has a node forge answers for the API and the client, with terminal colours. The client accepts only
// requested answers, and the other node's answers are complete.
func TestLiarForges(t *testing.T) {
	lies(t)
	defer nothingLeft(t)
	saved := filepath.Join(t.TempDir(), "run.ndjson")
	args := []string{"run", "--node", "node-a", "--via", "pod", "--image", lying, "--checks", "felix-live,node-ready,calico-pod,neighbour-reach"}
	d, a := report(t, append(args, "-o", "ndjson="+saved)...)
	if a.exit != 5 || d.reasonOf("") != probe.ReasonUnrequested || d.reasonOf("node-b") != "" {
		t.Errorf("exit %d, %q, %q\n%s", a.exit, d.reasonOf(""), d.reasonOf("node-b"), a.stdout)
	}
	for _, check := range []string{"node-ready", "calico-pod"} {
		d.want(t, check, probe.OK)
	}
	for _, r := range d.Results {
		if r.Status == probe.Fail || strings.Contains(r.Target, "--all") {
			t.Errorf("believed: %v", r)
		}
	}
	d.there().want(t, "felix-live", probe.OK)
	if strings.Contains(a.stdout, "--all") {
		t.Errorf("a fix is forged:\n%s", a.stdout)
	}
	unsteered(t, a.stdout+a.stderr)
	for _, format := range []string{"wide", "markdown", "yaml", "junit"} {
		b := call(t, "analyze", saved, "-o", format)
		if b.exit != 5 {
			t.Errorf("%s: exit %d %s", format, b.exit, b.stderr)
		}
		unsteered(t, b.stdout+b.stderr)
	}
}

// TestLiarFloods has a node that never stops sending: answers, or a line without end. The client must give up in time,
// without using much memory, and the other node's answers must be complete.
func TestLiarFloods(t *testing.T) {
	lies(t)
	defer nothingLeft(t)
	for _, check := range []string{"node-swap", "node-clock"} {
		t.Run(check, func(t *testing.T) {
			a := measure(t, "run", "--node", "node-a", "--via", "pod", "--image", lying, "--checks", check+",neighbour-reach",
				"--timeout", "60s", "-o", "json").wait(t)
			var d document
			if err := json.Unmarshal([]byte(a.stdout), &d); err != nil {
				t.Fatalf("no report, exit %d: %v %s", a.exit, err, a.stderr)
			}
			if a.exit != 5 || d.reasonOf("") != probe.ReasonTooMuch || d.reasonOf("node-b") != "" {
				t.Errorf("exit %d, %q, %q\n%s", a.exit, d.reasonOf(""), d.reasonOf("node-b"), a.stderr)
			}
			if answers := len(d.of(check)); answers > probe.MaxEvents {
				t.Errorf("%d answers", answers)
			}
			d.there().want(t, "neighbour-reach", probe.OK, "icmp")
		})
	}
}

// TestLiarTooLong sends an answer with a text longer than the line limit.
func TestLiarTooLong(t *testing.T) {
	lies(t)
	defer nothingLeft(t)
	d, a := report(t, "run", "--node", "node-a", "--via", "pod", "--image", lying, "--checks",
		"node-memory,neighbour-reach", "--timeout", "60s")
	if a.exit != 5 || d.reasonOf("") == "" || d.reasonOf("node-b") != "" {
		t.Errorf("exit %d, %q\n%s%s", a.exit, d.reasonOf(""), a.stdout, a.stderr)
	}
	d.there().want(t, "neighbour-reach", probe.OK, "icmp")
}

// TestLiarIsInterrupted requires that Ctrl-C works while a node floods, in a run and in a tool's output. The flood may
// last as long as FLOOD sets, without using memory.
func TestLiarIsInterrupted(t *testing.T) {
	lies(t)
	defer nothingLeft(t)
	flood, err := time.ParseDuration(cmp.Or(os.Getenv("FLOOD"), "5s"))
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"run":  {"run", "--checks", "node-swap", "-o", "ndjson"},
		"tool": {"shell", "-c", "ping 127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &measured{Cmd: client(t, append(args, "--node", "node-a", "--via", "pod", "--image", lying)...)}
			m.Stderr = &m.errs
			out, err := m.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			m.start(t)
			waitFor(t, out, map[string]string{"run": `"check":"node-swap"`, "tool": "zzz"}[name])
			if name == "tool" {
				for end := time.Now().Add(flood); time.Now().Before(end); {
					if _, err := out.Read(make([]byte, 64<<10)); err != nil {
						t.Fatalf("%v: %s", err, m.errs.String())
					}
				}
			}
			if err := m.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the client
			ended := make(chan struct{})
			go func() { _ = m.Wait(); close(ended) }()
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Fatalf("it does not end: %s", m.errs.String())
			}
			<-m.over
			if exit := m.ProcessState.ExitCode(); exit != 130 || !m.small() {
				t.Errorf("exit %d, %d KiB resident, %s", exit, m.most, m.errs.String())
			}
			eventually(t, time.Minute, func() string { return left(t) })
		})
	}
}

// TestLiarInASession records a session with a node that sends too much. The record must contain what was typed, and be
// readable.
func TestLiarInASession(t *testing.T) {
	slow(t)
	lies(t)
	defer nothingLeft(t)
	record := filepath.Join(t.TempDir(), "night.ndjson")
	a := call(t, "shell", "--node", "node-a", "--via", "pod", "--image", lying, "--transcript", record, "-c",
		"ps\nrun felix-live\nps -a")
	if a.exit != 5 || !strings.Contains(a.stderr, "were dropped") {
		t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	unsteered(t, a.stdout+a.stderr)
	typed := call(t, "analyze", "--typed", record)
	for _, command := range []string{"ps ", "run felix-live", "ps -a"} {
		if !strings.Contains(typed.stdout, "  "+command) {
			t.Errorf("%q is not in the record:\n%s%s", command, typed.stdout, typed.stderr)
		}
	}
	if b := call(t, "analyze", record); b.exit != 5 || !strings.Contains(b.stdout, "felix-live") {
		t.Errorf("exit %d\n%s%s", b.exit, b.stdout, b.stderr)
	}
}

// TestHostileLeftovers gives a tenant's pod all our labels, a name in our form, and annotations with terminal control
// characters and line breaks.
func TestHostileLeftovers(t *testing.T) {
	const said = "x\x1b[2J\x1b]0;owned\x07\x1b[32m\u202e\u009b\nforged: all is well"
	annotations := map[string]string{}
	for _, name := range []string{"node", "created-by", "who", "reason", "checks", "run", "expires", "lifetime"} {
		annotations["calico-probe.io/"+name] = said
	}
	pod := leftover(t, "default", "00000003", annotations)
	a := call(t, "clean")
	if a.exit != 0 || strings.Count(a.stdout, "\n") != 1 || !strings.Contains(a.stdout, "pod default/"+pod.Name) ||
		!strings.Contains(a.stdout, "forged: all is well") {
		t.Errorf("exit %d %q %s", a.exit, a.stdout, a.stderr)
	}
	unsteered(t, a.stdout+a.stderr)
}
