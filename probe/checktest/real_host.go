//go:build e2e

package checktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// RealCRI starts containerd below the node's root, with additional settings. This containerd can start pods for the
// kubelet. It waits until containerd-health succeeds, and returns the socket.
func RealCRI(t *testing.T, containerdHealth *probe.Check, h *probe.Host, more string) (socket string) {
	t.Helper()
	socket = h.Root + "/run/containerd/containerd.sock"
	config := "version = 3\nroot = '" + h.Root + "/root'\n" +
		"state = '" + h.Root + "/state'\n[grpc]\naddress = '" + socket + "'\n" +
		"[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'registry.k8s.io/pause:3.10'\n" +
		"[plugins.'io.containerd.cri.v1.runtime']\nrestrict_oom_score_adj = true\n" + more // without CAP_SYS_RESOURCE
	file := filepath.Join(h.Root, "config.toml")
	must.Do(t, os.WriteFile(file, []byte(config), 0o600))
	DaemonOf(t, "bin/containerd", "--config", file)
	Eventually(t, func() bool {
		return slices.ContainsFunc(Run(t, containerdHealth, h),
			func(r probe.Result) bool { return r.Target == "cri-status" && r.Status == probe.Fail })
	})
	return socket
}

// Only returns a proc file system that shows only one process and its descendants.
func Only(t *testing.T, top int) *probe.Host {
	t.Helper()
	h := &probe.Host{Root: "/", Proc: t.TempDir()}
	names := []string{"1", "uptime", "loadavg", "stat", "pressure", strconv.Itoa(top)}
	proc := must.Get(procfs.NewFS("/proc"))(t)
	all := must.Get(proc.AllProcs())(t)
	slices.SortFunc(all, func(a, b procfs.Proc) int { return a.PID - b.PID })
	for _, p := range all {
		if stat, err := p.Stat(); err == nil && slices.Contains(names[5:], strconv.Itoa(stat.PPID)) {
			names = append(names, strconv.Itoa(p.PID))
		}
	}
	for _, name := range names {
		must.Do(t, os.Symlink("/proc/"+name, filepath.Join(h.Proc, name)))
	}
	return h
}

// BashAs runs a shell under another name, which the kernel also shows.
func BashAs(t *testing.T, name string) string {
	t.Helper()
	bash := must.Get(exec.LookPath("bash"))(t)
	as := filepath.Join(t.TempDir(), name)
	must.Do(t, os.Symlink(bash, as))
	return as
}
