//go:build e2e

// Package nstest runs tests as root, in their own namespaces.
package nstest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Enter runs the rest of a test in a child process that has its own network and mount namespaces. Before that, it runs
// setup commands of iproute2 and nftables. In the parent process, Enter returns false, and the parent has nothing left
// to do. It starts a process instead of a thread, because checks use goroutines, which may run on any thread.
func Enter(t testing.TB, commands string) bool {
	t.Helper()
	if os.Getenv("IN_NAMESPACE_OF") != t.Name() {
		only := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
		args := []string{"-test.v", "-test.run=" + only}
		if b, ok := t.(*testing.B); ok {
			args = []string{"-test.run=^$", "-test.bench=" + only, fmt.Sprintf("-test.benchtime=%dx", max(b.N, 3))}
		}
		if testing.Short() {
			args = append(args, "-test.short")
		}
		child := exec.Command("/proc/self/exe", args...)
		child.Env = append(os.Environ(), "IN_NAMESPACE_OF="+t.Name())
		child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
		out, err := child.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("PASS")) {
			t.Errorf("in its namespace: %v\n%s", err, out)
		} else if _, ok := t.(*testing.B); ok {
			t.Logf("in its namespace:\n%s", out)
		}
		return false
	}
	for line := range strings.Lines(commands) {
		args := strings.Fields(line)
		if len(args) == 0 {
			continue
		}
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	return true
}
