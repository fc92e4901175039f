//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// bySSH are the flags with which the client's ssh gets into the sandbox.
func bySSH(t testing.TB, edits ...string) []string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "config")
	text := strings.NewReplacer(edits...).Replace(mustSandbox(t, "ssh-config"))
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--ssh-config", name}
}

// TestBySSH requires that a probe over ssh gets the same results as a probe in a pod, and proves the tunnels with a
// probe on the other node.
func TestBySSH(t *testing.T) {
	d, a := report(t, append(bySSH(t), "run", "--node", "node-a", "--via", "ssh", "--profile", "deep", "--skip",
		"node-load")...)
	if a.exit != 0 || a.stderr != "" {
		t.Errorf("exit %d, %s\n%s", a.exit, d.Verdict, a.stderr)
	}
	d.want(t, "encap-proof", probe.OK)
	pod, _ := report(t, "run", "--node", "node-a", "--via", "pod", "--profile", "deep", "--skip", "node-load")
	sameSight(t, pod, d)
	w := d.Methods[1]
	if w.Method != "ssh" || !slices.Contains(w.Access, "uid 0") || !slices.Contains(w.Access, "host processes") {
		t.Errorf("%+v", w)
	}
	nothingLeft(t)
}

// sameSight requires that a method sees what a probe in a pod sees: a check with a finding there has one here. Findings
// of two runs on a loaded machine may differ, and so may single targets that time out.
func sameSight(t testing.TB, pod, other document) {
	t.Helper()
	seen := func(d document) map[string]bool {
		checks := map[string]bool{}
		for _, r := range d.Results {
			checks[r.Check] = checks[r.Check] || r.Status != probe.Unknown && r.Status != probe.Skip
		}
		return checks
	}
	there, here := seen(pod), seen(other)
	for _, c := range slices.Sorted(maps.Keys(there)) {
		saw, answered := here[c]
		if there[c] && answered && !saw && c != "neighbour-reach" { // only a method with pods uses other nodes
			t.Errorf("%s: seen only by the probe in a pod", c)
		}
	}
}

// TestBySSHAsAnybody logs in as a user who may not become root. Checks that need root must be unknown, not bad, with
// that reason.
func TestBySSHAsAnybody(t *testing.T) {
	slow(t)
	d, a := report(t, append(bySSH(t), "run", "--node", "node-b", "--via", "ssh", "--ssh", "ops@{node}", "--skip",
		"node-load")...)
	if a.exit != 5 || !strings.Contains(a.stderr, "the login is not root") {
		t.Errorf("exit %d\n%s", a.exit, a.stderr)
	}
	d.want(t, "containerd-health", probe.Unknown, "permission denied")
	d.want(t, "felix-live", probe.OK)
	for _, r := range d.Results {
		if r.Status == probe.Fail {
			t.Errorf("%v", r)
		}
	}
	nothingLeft(t)
}

// TestSSHRefused requires, for each ssh failure, one sentence that says what to do.
func TestSSHRefused(t *testing.T) {
	slow(t)
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.WriteFile(closed, []byte("Host *\n  Port 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	nobody := []string{"IdentityFile", "IdentityFile /nowhere #"}
	touched, learned := filepath.Join(t.TempDir(), "touched"), filepath.Join(t.TempDir(), "learned")
	stranger := []string{"UserKnownHostsFile", "UserKnownHostsFile /nowhere #"}
	for name, c := range map[string]struct {
		flags  []string
		reason string
		says   string
	}{
		"no key":       {bySSH(t, nobody...), "login", "permission denied: load a key"},
		"strange host": {bySSH(t, stranger...), "login", "accept it once with 'ssh -o StrictHostKeyChecking=ask -- 10.88.0.12'"},
		"trusting":     {bySSH(t, "UserKnownHostsFile", "StrictHostKeyChecking no\n  UserKnownHostsFile "+learned+" #"), "login", "not known here"},
		"changed host": {bySSH(t, "UserKnownHostsFile", "UserKnownHostsFile "+otherKey(t)+" #"), "login",
			"differs from the known one"},
		"no shell":       {append(bySSH(t), "--ssh", "closed@{ip}"), "shell", "not available"},
		"nobody listens": {[]string{"--ssh-config", closed, "--ssh", "127.0.0.1"}, "reach", "connection refused"},
		"no such name":   {append(bySSH(t, "ProxyCommand", "#"), "--ssh", "nowhere.invalid"), "reach", "does not resolve"},
		"not an option":  {append(bySSH(t), "--ssh", "x@-oProxyCommand=touch$IFS"+touched), "reach", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, a := report(t, append(c.flags, "run", "--node", "node-b", "--via", "ssh")...)
			if a.exit != 5 || a.stderr != "" {
				t.Errorf("exit %d\n%s", a.exit, a.stderr)
			}
			d.want(t, "probe-placed", probe.Unknown, "ssh to ", c.says)
			for _, r := range d.of("probe-placed") {
				if got := r.Facts.Str(probe.FactReason); got != c.reason {
					t.Errorf("reason %s, want %s: %v", got, c.reason, r)
				}
			}
		})
	}
	for _, name := range []string{touched, learned} {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("there is a file %s", name)
		}
	}
	cmd := client(t, "run", "--node", "node-b", "--via", "ssh")
	cmd.Env = append(os.Environ(), "PATH=/nowhere")
	if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), "no ssh program on this machine") {
		t.Errorf("%s", out)
	}
	nothingLeft(t)
}

// otherKey is a file of known hosts in which node-b has node-a's key.
func otherKey(t testing.TB) string {
	t.Helper()
	_, rest, _ := strings.Cut(mustSandbox(t, "ssh-config"), "UserKnownHostsFile ")
	file, _, _ := strings.Cut(rest, "\n")
	known, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(known)) {
		if _, key, ok := strings.Cut(line, " "); ok && strings.Contains(line, "10.88.0.11") {
			name := filepath.Join(t.TempDir(), "known_hosts")
			if err := os.WriteFile(name, []byte("10.88.0.12 "+key), 0o600); err != nil {
				t.Fatal(err)
			}
			return name
		}
	}
	t.Fatalf("node-a's key is not in %s:\n%s", file, known)
	return ""
}

// TestNothingIsLeftBySSH ends runs in every way at random moments. No folder and no process may remain on the node.
func TestNothingIsLeftBySSH(t *testing.T) {
	slow(t)
	leftByNone(t, "node-a", "ssh", bySSH(t)...)
}

// leftByNone ends runs by one way at odd moments.
func leftByNone(t *testing.T, node, way string, flags ...string) {
	args := append(flags, "run", "--node", node, "--via", way, "-o", "ndjson")
	var arrived atomic.Int32
	const runs, abreast = 24, 3
	turn := make(chan struct{}, abreast)
	var all sync.WaitGroup
	for i := range runs {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			cmd := client(t, args...)
			var out bytes.Buffer
			cmd.Stdout = &out
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Duration(rand.IntN(2500)) * time.Millisecond)
			_ = cmd.Process.Signal([]syscall.Signal{syscall.SIGKILL, syscall.SIGINT}[i%2]) // it may have ended just before
			_ = cmd.Wait()
			if strings.Contains(out.String(), `"type":"start"`) && strings.Contains(out.String(), `"way":"`+way+`"`) {
				arrived.Add(1)
			}
		})
	}
	all.Wait()
	if arrived.Load() == 0 {
		t.Errorf("no run came as far as a probe on the node: nothing was tested")
	}
	began := time.Now()
	nothingLeft(t)
	t.Logf("nothing left %v after the last of %d runs, of which %d had a probe on the node", time.Since(began).Round(100*time.Millisecond), runs, arrived.Load())
}

// TestCutLineBySSH silently cuts the connection during a run. The client must notice the missing heartbeats, and the
// probe must exit automatically.
func TestCutLineBySSH(t *testing.T) {
	slow(t)
	mustSandbox(t, "felix", "node-a", "hang") // so that the run is still going on
	cut := func(how string) {
		shell(t, "node-a", fmt.Sprintf("iptables -%s INPUT -p tcp --dport 22 -j DROP; iptables -%s OUTPUT -p tcp --sport 22 -j DROP", how, how))
	}
	t.Cleanup(func() { mustSandbox(t, "felix", "node-a", "ok"); calicoReady(t, "node-a") })
	cmd, out := started(t, nil, append(bySSH(t), "run", "--node", "node-a", "--via", "ssh", "-o", "ndjson",
		"--check-timeout", "40s")...)
	waitFor(t, out, `"check":"node-swap"`)
	cut("I")
	defer cut("D")
	if left(t) == "" {
		t.Error("this test sees no probe where there is one")
	}
	waitFor(t, out, "no output from the probe for 15s")
	waitFor(t, out, `"type":"verdict"`)
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 5 && got != 3 {
		t.Errorf("exit %d", got)
	}
	nothingLeft(t)
}
