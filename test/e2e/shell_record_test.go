//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// healAfter takes the fault back that a test has injected, and waits for its node.
func healAfter(t *testing.T, node string) {
	t.Helper()
	t.Cleanup(func() { healed(t, node) })
}

func healed(t *testing.T, node string) {
	t.Helper()
	mustSandbox(t, "fault", "heal")
	eventually(t, 90*time.Second, func() string {
		// how busy the machine is, is not ours to heal
		if a := call(t, "run", "--node", node, "--baselines", "0", "--skip", "node-load"); a.exit != 0 {
			return "healed, and " + a.stdout + a.stderr
		}
		return ""
	})
}

// between writes a script that a command of the session is piped into: what happens to
// the cluster meanwhile.
func between(t *testing.T, script string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "between")
	script = "#!/bin/sh -e\ncat >/dev/null\nprobe='" + file("bin/calico-probe") + "' sandbox='" + file("bin/sandbox") + "' cluster='" + clusterName + "'\n" + script
	if err := os.WriteFile(name, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestShellWhy has one session see a node healthy, broken, and healthy again. The saved files and the record must
// agree.
func TestShellWhy(t *testing.T) {
	slow(t)
	const node = "node-b"
	nodeReady(t, node)
	healAfter(t, node)
	folder := t.TempDir()
	saved, incident := filepath.Join(folder, "broken.ndjson"), filepath.Join(folder, "incident.ndjson")
	breaks := between(t, `"$sandbox" fault inject --name "$cluster" bird-dead`)
	heals := between(t, `"$sandbox" fault heal --name "$cluster"
for i in $(seq 60); do "$probe" run --node `+node+` --baselines 0 >/dev/null 2>&1 && exit; sleep 1; done; exit 1`)
	script := strings.Join([]string{
		"why", "run bird-socket", "why", "checks | " + breaks, "run", "why", "save " + saved, "save " + saved,
		"checks | cp " + incident + " " + incident + ".then", "checks | " + heals, "run", "why",
	}, "\n")
	a := shellFed(t, script, "--node", node, "--transcript", incident)
	a.stdout = calm(a.stdout)
	if a.exit != 3 {
		t.Errorf("exit %d, and the worst was a fault", a.exit)
	}
	at := 0
	for _, want := range []string{
		"no check has run on node-b so far", "nothing bad so far: ", "answered so far: 1 of ", "; 'run' runs the rest",
		"fault on ", "[bird-dead", "fix ", "fault on ", "answered so far: all ", " results of node-b are in " + saved,
		"healthy on ", "healthy on ", "answered so far: all ",
	} {
		i := strings.Index(a.stdout[at:], want)
		if i < 0 {
			t.Fatalf("%q is not there, or not in this place\n%s%s", want, a.stdout, a.stderr)
		}
		at += i + len(want)
	}
	if !strings.Contains(a.stderr, saved+" exists already") {
		t.Errorf("it was saved twice: %s", a.stderr)
	}
	for _, name := range []string{saved, incident, incident + ".then"} {
		an := call(t, "analyze", name)
		an.stdout = calm(an.stdout)
		wantCause, wantExit := "[bird-dead", 3
		if name == incident { // the last answers are those of a node that is well
			wantCause, wantExit = "healthy on ", 0
		}
		if an.exit != wantExit || !strings.Contains(an.stdout, wantCause) {
			t.Errorf("%s: exit %d\n%s%s", name, an.exit, an.stdout, an.stderr)
		}
		if info, err := os.Stat(name); err != nil || name != incident+".then" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, err, info.Mode())
		}
	}
	if d := call(t, "diff", incident, saved); d.exit != 3 || !strings.Contains(d.stdout, "bird-socket") {
		t.Errorf("exit %d\n%s%s", d.exit, d.stdout, d.stderr)
	}
	list := call(t, "analyze", "--typed", incident)
	if lines := strings.Split(strings.TrimSpace(list.stdout), "\n"); list.exit != 0 || len(lines) != 13 ||
		!strings.Contains(lines[5], "node-b  run ") || !strings.Contains(lines[5], "fault: fail ") {
		t.Errorf("exit %d\n%s%s", list.exit, list.stdout, list.stderr)
	}
	nothingLeft(t)
}

// shellFed runs a session whose commands come from stdin.
func shellFed(t *testing.T, script string, args ...string) answer {
	t.Helper()
	cmd := client(t, append([]string{"shell"}, args...)...)
	var out, errs strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(script), &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return answer{exit: cmd.ProcessState.ExitCode(), stdout: out.String(), stderr: errs.String()}
}

// watched is a watch that runs, and the lines it writes.
type watched struct {
	cmd   *exec.Cmd
	said  *heard // its stderr
	lines chan string
	seen  []string
}

func watch(t *testing.T, node, command string, args ...string) *watched {
	t.Helper()
	var said heard
	cmd, out := started(t, &said, append([]string{"shell", "--node", node, "-c", command}, args...)...)
	w := &watched{cmd: cmd, said: &said, lines: make(chan string, 1000)}
	go func() {
		defer close(w.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			w.lines <- s.Text()
		}
	}()
	return w
}

// until waits for a line that has all of texts.
func (w *watched) until(t *testing.T, limit time.Duration, texts ...string) {
	t.Helper()
	late := time.After(limit)
next:
	for {
		select {
		case line, more := <-w.lines:
			if !more {
				t.Fatalf("it ended before %q:\n%s", texts, strings.Join(w.seen, "\n"))
			}
			w.seen = append(w.seen, line)
			for _, text := range texts {
				if !strings.Contains(line, text) {
					continue next
				}
			}
			return
		case <-late:
			t.Fatalf("no %q within %v:\n%s", texts, limit, strings.Join(w.seen, "\n"))
		}
	}
}

// stop is Ctrl-C, which is a good end.
func (w *watched) stop(t *testing.T) {
	t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for line := range w.lines {
		w.seen = append(w.seen, line)
	}
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v\n%s", err, strings.Join(w.seen, "\n"))
	}
}

// TestShellWatch watches BIRD fail and recover, and little else. The record must contain its last answer, regardless of
// how the watch ended.
func TestShellWatch(t *testing.T) {
	const node = "node-b"
	nodeReady(t, node)
	healAfter(t, node)
	incident := filepath.Join(t.TempDir(), "incident.ndjson")
	w := watch(t, node, "watch -n 1 bird-socket bgp-session", "--transcript", incident)
	w.until(t, time.Minute, " ok ", "bird-socket", "/run/calico/bird.ctl")
	mustSandbox(t, "fault", "inject", "bird-dead")
	w.until(t, time.Minute, " fail ", "bird-socket", "/run/calico/bird.ctl", "(was ok)")
	mustSandbox(t, "fault", "heal")
	w.until(t, time.Minute, " ok ", "bird-socket", "/run/calico/bird.ctl", "(was fail)")
	w.until(t, time.Minute, " ok ", "bgp-session", "10.88.", "Established")
	w.stop(t)
	if n := len(w.seen); n > 40 {
		t.Errorf("%d lines for one change and back:\n%s", n, strings.Join(w.seen, "\n"))
	}
	if a := call(t, "analyze", incident); a.exit != 0 || !strings.Contains(a.stdout, "healthy on ") {
		t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	w = watch(t, node, "watch -n 0.5 dial 127.0.0.1:9", "--transcript", incident)
	w.until(t, time.Minute, " fail ", "dial", "127.0.0.1:9", "refused")
	if a := call(t, "shell", "--node", node, "--transcript", incident, "-c", "why"); a.exit != 2 ||
		!strings.Contains(a.stderr, "another session") {
		t.Errorf("a second session with the same transcript: exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	w.stop(t)
	nothingLeft(t)
}

// TestShellWatchLosesItsProbe removes a watch's probe. The watch must report that and continue with another probe.
func TestShellWatchLosesItsProbe(t *testing.T) {
	slow(t)
	const node = "node-a"
	nodeReady(t, node)
	nothingLeft(t) // of the tests before
	w := watch(t, node, "watch -n 1 node-swap")
	w.until(t, time.Minute, " ok ", "node-swap")
	k, now := kube(t), int64(0)
	probes := func() []corev1.Pod {
		pods, err := k.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=calico-probe"})
		if err != nil {
			t.Fatal(err)
		}
		return pods.Items
	}
	old := probes()
	if len(old) != 1 {
		t.Fatalf("%d probes, want one to take away", len(old))
	}
	if err := k.CoreV1().Pods(old[0].Namespace).Delete(t.Context(), old[0].Name,
		metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 60*time.Second, func() string {
		for _, p := range probes() {
			if p.UID != old[0].UID && p.Status.Phase == corev1.PodRunning &&
				strings.Contains(w.said.String(), "placing another") {
				return ""
			}
		}
		return "no other probe has come: " + w.said.String()
	})
	time.Sleep(3 * time.Second) // some more times
	w.stop(t)
	text := strings.Join(w.seen, "\n")
	if strings.Count(text, "unknown") > 1 || strings.Count(text, "unknown") != strings.Count(text,
		"it answers again") || strings.Count(text, "node-swap") > 1 {
		t.Errorf("it was lost once, and nothing else has changed:\n%s\n%s", text, w.said.String())
	}
	nothingLeft(t)
}

// TestShellSideBySide compares a broken node with a healthy node, and lists its peers.
func TestShellSideBySide(t *testing.T) {
	slow(t)
	const node = "node-b"
	nodeReady(t, node)
	healAfter(t, node)
	a := call(t, "shell", "--node", "node-a", "-c", "peers")
	if a.exit != 0 || !strings.Contains(a.stdout, "node-b  yes ") || !strings.Contains(a.stdout, "ok: Established") ||
		!strings.Contains(a.stdout, "BGP as node-a had it") {
		t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	mustSandbox(t, "fault", "inject", "bird-dead")
	a = call(t, "shell", "--node", node, "-c", "run bird-socket node-swap; diff with node-a")
	if a.exit != 3 || !strings.Contains(a.stdout, "worse    bird-socket") ||
		!strings.Contains(a.stdout, "B  fault on node node-b") || strings.Contains(a.stdout, "node-disk") {
		t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	a = call(t, "shell", "--node", "node-a", "-c", "diff node-b")
	if !strings.Contains(a.stdout, "better   bird-socket") { // its session with the other is worse
		t.Errorf("the good one beside the bad one: exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	a = call(t, "shell", "--node", "node-a", "-c", "peers")
	if a.exit != 0 || !strings.Contains(a.stdout, "fail: ") {
		t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	nothingLeft(t)
}

// TestShellKilledLeavesARecord kills the client and reads its record.
func TestShellKilledLeavesARecord(t *testing.T) {
	slow(t)
	const node = "node-a"
	nodeReady(t, node)
	incident := filepath.Join(t.TempDir(), "incident.ndjson")
	cmd, out := started(t, nil, "shell", "--node", node, "--transcript", incident, "-c", "watch -n 1 node-swap")
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	a := call(t, "analyze", incident, "-o", "json")
	var d document
	if err := json.Unmarshal([]byte(a.stdout), &d); err != nil || len(d.of("node-swap")) != 1 {
		t.Errorf("%v\n%s%s", err, a.stdout, a.stderr)
	}
	if a := call(t, "analyze", "--typed", incident); !strings.Contains(a.stdout, "watch -n 1 node-swap") ||
		!strings.Contains(a.stdout, "the record ends here") {
		t.Errorf("%s%s", a.stdout, a.stderr)
	}
	a = call(t, "shell", "--node", node, "--transcript", incident, "-c", "run node-swap; bird show protocols")
	if a.exit != 0 {
		t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	if b, err := os.ReadFile(incident); err != nil || !strings.Contains(string(b), `"type":"out","text":"name     proto`) {
		t.Errorf("what bird said is not in it: %v", err)
	}
	if a := call(t, "analyze", incident); a.exit != 0 || !strings.Contains(calm(a.stdout), "healthy on ") {
		t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	nothingLeft(t)
}

// calm overlooks that this machine is busy with other tests too.
func calm(text string) string {
	return strings.ReplaceAll(text, "warnings: 1 warn (node-load)", "healthy: busy")
}
