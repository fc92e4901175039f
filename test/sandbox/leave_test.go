//go:build e2e

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const testCluster = "leave"

// sandbox is the built command on the tests' own cluster.
func sandbox(t testing.TB, verb string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, "../../bin/sandbox", append([]string{verb, "--name", testCluster}, args...)...)
}

func mustRun(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

// traces returns what a cluster can leave on the machine: namespaces with a process, mounts, swap, cgroups, its state,
// and processes, by their arguments.
func traces(t testing.TB) []string {
	t.Helper()
	found := map[string]bool{}
	links, err := filepath.Glob("/proc/[0-9]*/ns/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if ns, err := os.Readlink(link); err == nil { // the process may have gone
			found["namespace "+ns] = true
		}
	}
	cmdlines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range cmdlines {
		if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte("--name\x00"+testCluster)) {
			found[fmt.Sprintf("process %q", b)] = true
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		_, mount, _ := strings.Cut(line, " ")
		found["mount "+mount] = true
	}
	swaps, err := os.ReadFile("/proc/swaps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(swaps)) {
		if strings.Contains(line, "/swap-"+testCluster+" ") {
			found["swap "+line] = true
		}
	}
	for _, pattern := range []string{"../../.cache/swap-" + testCluster, "/sys/fs/cgroup/calico-probe-sandbox-" + testCluster + "*", "/sys/fs/cgroup/*/calico-probe-sandbox-" + testCluster + "*", stateRoot + "/" + testCluster} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			found["file "+name] = true
		}
	}
	var out []string
	for f := range found {
		out = append(out, f)
	}
	slices.Sort(out)
	return out
}

// nothingMore waits until there are no new traces.
func nothingMore(t testing.TB, before []string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		more := slices.DeleteFunc(traces(t), func(s string) bool { return slices.Contains(before, s) })
		if len(more) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind:\n%s", strings.Join(more, "\n"))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestLeavesNothing ends a cluster in each possible way.
func TestLeavesNothing(t *testing.T) {
	for name, end := range map[string]func(*testing.T){
		"down": func(t *testing.T) {
			mustRun(t, sandbox(t, "up"))
			if got := mustRun(t, sandbox(t, "exec", "node-a", "--", "sh", "-c",
				"hostname; cat /proc/1/comm")); !strings.HasPrefix(got, "node-a\n") {
				t.Errorf("on the node: %q", got)
			}
			if more := len(traces(t)); more < 20 {
				t.Errorf("%d traces of a cluster that is up: this test sees nothing", more)
			}
			mustRun(t, sandbox(t, "down"))
		},
		"supervisor killed, with swap on": func(t *testing.T) {
			mustRun(t, sandbox(t, "up"))
			l := lab{layout: layout{testCluster}}
			t.Setenv("CALICO_PROBE_CACHE", "../../.cache")
			if err := l.swapOn(t.Context()); err != nil {
				t.Fatal(err)
			}
			pid, err := os.ReadFile(filepath.Join(stateRoot, testCluster, "pid"))
			if err != nil {
				t.Fatal(err)
			}
			n, err := strconv.Atoi(string(pid))
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		},
		"not ready in time": func(t *testing.T) {
			if out, err := sandbox(t, "up", "--timeout", "1s").CombinedOutput(); err == nil {
				t.Errorf("ready after a second: %s", out)
			}
		},
		"not ready in time, and kept": func(t *testing.T) {
			out, err := sandbox(t, "up", "--timeout", "1s", "--keep").CombinedOutput()
			if err == nil || !strings.Contains(string(out), "'sandbox down --name "+testCluster+"' ends it") {
				t.Fatalf("%v: %s", err, out)
			}
			if got := mustRun(t, sandbox(t, "status")); !strings.Contains(got, stateRoot+"/"+testCluster+"/logs") {
				t.Errorf("status: %s", got)
			}
			for { // it becomes ready later
				out, err := sandbox(t, "up").CombinedOutput()
				if err == nil {
					break
				}
				if !strings.Contains(string(out), "is being started") {
					t.Fatalf("%v: %s", err, out)
				}
				time.Sleep(time.Second)
			}
			mustRun(t, sandbox(t, "down"))
		},
		"Ctrl-C while it starts": func(t *testing.T) {
			up := sandbox(t, "up")
			if err := up.Start(); err != nil {
				t.Fatal(err)
			}
			for {
				if _, err := os.Stat(filepath.Join(stateRoot, testCluster, "stage")); err == nil {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			if err := up.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if err := up.Wait(); err == nil {
				t.Error("an interrupted up succeeds")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := traces(t)
			t.Cleanup(func() { _ = sandbox(t, "down").Run() })
			end(t)
			nothingMore(t, before)
		})
	}
}

// BenchmarkUp measures the time from nothing to a cluster with ready nodes and pods.
func BenchmarkUp(b *testing.B) {
	for b.Loop() {
		mustRun(b, sandbox(b, "up"))
		b.StopTimer()
		mustRun(b, sandbox(b, "down"))
		b.StartTimer()
	}
}

func TestBadInput(t *testing.T) {
	for args, says := range map[string]string{
		"upp":                  "upp",
		"up --kubernetes 1.30": "1.31, 1.36, 1.37",
		"felix node-a angry":   "ok, 204, 503, hang, refuse",
		"felix node-z ok":      "node-z",
		"exec node-a -- true":  "sandbox up --name leave",
		"kubeconfig":           "not up",
		"init-hang node-a yes": "on or off",
	} {
		f := strings.Fields(args)
		out, err := sandbox(t, f[0], f[1:]...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), says) || bytes.Count(out, []byte("\n")) != 1 {
			t.Errorf("%q: %v, %s", args, err, out)
		}
	}
}
