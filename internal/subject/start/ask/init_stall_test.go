package ask

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestInitStall examines a real process with the name of install-cni's program.
func TestInitStall(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	checktest.Want(t, checktest.Run(t, initStallCheck, h), "", probe.OK, "no init container")
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	c := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	defer c.Close()
	api := must.Get(c.(*net.TCPConn).File())(t)
	defer api.Close()
	cmd := &exec.Cmd{Path: filepath.Join(t.TempDir(), "install"), Args: []string{"/opt/cni/bin/install", "60"},
		ExtraFiles: []*os.File{api}}
	must.Do(t, os.Symlink("/bin/sleep", cmd.Path))
	must.Do(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	// A process gets its arguments a moment after it starts.
	for deadline := time.Now().Add(10 * time.Second); checktest.Run(t, initStallCheck, h)[0].Status == probe.OK &&
		time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	r := checktest.Want(t, checktest.Run(t, initStallCheck, h), "", probe.Info,
		fmt.Sprintf("install-cni (process %d) has been running", cmd.Process.Pid))
	leads := fmt.Sprintf("to %s, established", l.Addr())
	if !slices.ContainsFunc(r.Lines, func(line string) bool { return strings.Contains(line, leads) }) {
		t.Errorf("the remote end of its connection is not shown: %+v", r)
	}
	if to := fmt.Sprint(r.Facts[start.FactLeads]); !strings.Contains(to, leads) ||
		!slices.Contains([]string{"S", "R"}, r.Facts.Str(start.FactProcess)) { // it may not sleep yet
		t.Errorf("facts %v", r.Facts)
	}
}

// TestInitStalled has a process that has been running for half an hour.
func TestInitStalled(t *testing.T) {
	t.Parallel()
	boot := time.Now().Add(-time.Hour).Unix()
	h := checktest.Node(t, map[string]string{
		"proc/1/comm":    "systemd\n",
		"proc/stat":      fmt.Sprintf("cpu  1 0 1 1 0 0 0 0 0 0\nbtime %d\n", boot),
		"proc/9/comm":    "calico-ipam\n",
		"proc/9/cmdline": "/opt/cni/bin/calico-ipam\x00-upgrade\x00",
		"proc/9/stat":    "9 (calico-ipam) S 1 9 9 0 -1 4194560 100 0 0 0 1 1 0 0 20 0 8 0 180000 1000 10 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
		"proc/9/wchan":   "futex_wait_queue",
	})
	must.Do(t, os.MkdirAll(filepath.Join(h.Proc, "9/fd"), 0o755))
	must.Do(t, os.Symlink("/var/lib/cni/networks/k8s-pod-network/lock", filepath.Join(h.Proc, "9/fd/3")))
	r := checktest.Want(t, checktest.Run(t, initStallCheck, h), "", probe.Fail, "upgrade-ipam (process 9) has been running for 30m", "state S",
		"waiting in futex_wait_queue")
	if len(r.Lines) != 1 || r.Lines[0] != "open: /var/lib/cni/networks/k8s-pod-network/lock" {
		t.Errorf("evidence %v", r.Lines)
	}
	alone := checktest.Node(t, map[string]string{"proc/1/comm": "probe\n"})
	checktest.Want(t, checktest.Run(t, initStallCheck, alone), "", probe.Skip, "processes are not visible")
}
