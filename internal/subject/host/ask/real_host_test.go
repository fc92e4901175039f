//go:build e2e

package ask

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

// cgroupWith creates a cgroup with the settings for its version. It returns a function that moves a process into it.
func cgroupWith(t *testing.T, controller string, v1, v2 [][2]string) (enter func(pid int)) {
	t.Helper()
	name, settings := "calico-probe-test-"+strconv.Itoa(os.Getpid()), v1
	dir := filepath.Join("/sys/fs/cgroup", controller, name)
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir, settings = filepath.Join("/sys/fs/cgroup", name), v2
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("cannot create a cgroup for %s: %v", controller, err)
	}
	t.Cleanup(func() { checktest.Eventually(t, func() bool { return os.Remove(dir) == nil }) })
	set := func(file, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	for _, s := range settings {
		set(s[0], s[1])
	}
	return func(pid int) { t.Helper(); set("cgroup.procs", strconv.Itoa(pid)) }
}

// stuckProcess starts a process in uninterruptible sleep, as with a dead NFS server: the parent of a vfork sleeps until
// the child executes a program or exits.
func stuckProcess(t *testing.T) *exec.Cmd {
	t.Helper()
	const cloneVfork = "56, 0x4000|17, 0, 0, 0, 0" // amd64's number of clone, and SIGCHLD
	cmd := exec.Command("perl", "-e", "my $p = syscall("+cloneVfork+"); sleep 600 if $p == 0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // killed
	})
	return cmd
}

// TestRealLoad runs one process in uninterruptible sleep, and a busy one that is limited to a tenth of a CPU.
func TestRealLoad(t *testing.T) {
	pid := stuckProcess(t).Process.Pid
	checktest.Eventually(t, func() bool {
		r := checktest.Run(t, nodeLoadCheck, checktest.Only(t, pid))[0]
		return strings.Contains(r.Saw, "1 processes are in uninterruptible sleep") &&
			strings.Contains(r.Saw, "perl ("+strconv.Itoa(pid)+") in ") && r.Status != probe.OK
	})

	enter := cgroupWith(t, "cpu", [][2]string{{"cpu.cfs_period_us", "10000"}, {"cpu.cfs_quota_us", "1000"}},
		[][2]string{{"cpu.max", "1000 10000"}})
	burner := exec.Command(checktest.BashAs(t, "calico-node"), "-c", "while :; do :; done", "-felix")
	must.Do(t, burner.Start())
	t.Cleanup(func() { checktest.Kill(t, burner) })
	enter(burner.Process.Pid)
	checktest.Eventually(t, func() bool {
		return slices.ContainsFunc(checktest.Run(t, nodeLoadCheck, checktest.Only(t, burner.Process.Pid)),
			func(r probe.Result) bool {
				return r.Target == "calico-node cpu" && r.Status == probe.Warn &&
					strings.Contains(r.Saw, "at its CPU limit in ")
			})
	})
}

// TestRealMemory lets a process in calico-node's container grow beyond the container's memory limit.
func TestRealMemory(t *testing.T) {
	enter := cgroupWith(t, "memory", [][2]string{{"memory.limit_in_bytes", "30000000"}},
		[][2]string{{"memory.max", "30000000"}})
	grow := filepath.Join(t.TempDir(), "grow")
	felix := exec.Command(checktest.BashAs(t, "calico-node"), "-c",
		"until [ -e "+grow+" ]; do sleep .1; done; perl -e '$x = q(x) x 100e6; sleep 600'; sleep 600; true", "-felix")
	felix.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Do(t, felix.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-felix.Process.Pid, syscall.SIGKILL)
		_ = felix.Wait() // killed
	})
	enter(felix.Process.Pid)
	h := checktest.Only(t, felix.Process.Pid)
	for _, name := range []string{"meminfo", "vmstat"} {
		must.Do(t, os.Symlink("/proc/"+name, filepath.Join(h.Proc, name)))
	}
	kills := func() float64 {
		n, _ := checktest.Run(t, nodeMemoryCheck, h)[0].Facts.Num(factOOMKills)
		return n
	}
	before := kills()
	checktest.Want(t, checktest.Run(t, nodeMemoryCheck, h), "calico-node memory", probe.OK, "no OOM kill")
	must.Do(t, os.WriteFile(grow, nil, 0o600))
	checktest.Eventually(t, func() bool { return kills() > before })
	got := checktest.Run(t, nodeMemoryCheck, h)
	checktest.Want(t, got, "calico-node memory", probe.Warn, "1 OOM kills in calico-node's container", "the container has a memory limit")
	checktest.Want(t, got, "", probe.Info, "OOM kills since boot")
}
