//go:build e2e

package checktest

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

func At(kind, name, addr string) probe.Target {
	return probe.Target{Kind: kind, Name: name, Node: name, Addr: netip.MustParseAddr(addr)}
}

// Furniture sets up a node that has one neighbour's subnet, and a route of each type that rejects packets.
const Furniture = `
ip link set lo up
ip link add eth0 type veth peer name far
ip addr add 10.9.0.1/24 dev eth0
ip addr add fd09::1/64 dev eth0 nodad
ip link set eth0 up
ip link set far up
ip route add 10.244.1.0/26 via 10.9.0.2 proto bird
ip route add 10.244.2.0/26 via 10.9.0.2 proto 80
ip route add blackhole 10.244.3.0/26
ip route add unreachable 10.244.4.0/26
ip route add prohibit 10.244.5.0/26
ip -6 route add fd00:244::/64 via fd09::2 proto bird
`

// Part returns the path of a component that 'make sandbox' has placed below .cache.
func Part(t *testing.T, name string) string {
	t.Helper()
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			path := must.Get(filepath.Abs(filepath.Join(dir, ".cache", name)))(t)
			return path
		}
		if abs, err := filepath.Abs(dir); err != nil || abs == "/" {
			t.Fatal("no go.mod above this test")
		}
	}
}

// DaemonOf starts a program in its own mount and network namespaces. It kills the program at the end of the test.
func DaemonOf(t *testing.T, binary string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(Part(t, binary), args...)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":"+Part(t, "bin"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
	log := must.Get(os.Create(filepath.Join(t.TempDir(), "log")))(t)
	cmd.Stdout, cmd.Stderr = log, log
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the test may have killed the program
		_ = cmd.Wait()
		if output, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s said:\n%s", binary, output)
		}
	})
	return cmd
}

// Eventually waits until ok is true.
func Eventually(t *testing.T, ok func() bool) {
	t.Helper()
	const limit = 90 * time.Second // a machine that also runs two clusters is slow
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in %v", limit)
		}
	}
}

// Freeze stops a process, and Kill kills it.
func Freeze(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must.Do(t, cmd.Process.Signal(syscall.SIGSTOP))
	Eventually(t, func() bool { // otherwise, a thread of the process may still answer
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", cmd.Process.Pid))
		return err == nil && len(threads) > 0 && !slices.ContainsFunc(threads, func(name string) bool {
			stat, err := os.ReadFile(name)
			_, rest, _ := strings.Cut(string(stat), ") ")
			return err == nil && !strings.HasPrefix(rest, "T")
		})
	})
}

func Kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
}
