package ask

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/node"
)

// TestHangingProcess has a process with a command line that cannot be read: the process hangs in the kernel and holds
// the lock of its memory. Reading it must not hang a check.
func TestHangingProcess(t *testing.T) {
	t.Parallel()
	files := map[string]string{"proc/1/comm": "systemd\n", "proc/1/cmdline": "/sbin/init\x00", "proc/9/comm": "java\n"}
	checktest.Process(files, 10, 1, "calico-node", 1, "\t1", "calico-node", "-felix")
	h := checktest.Node(t, files)
	must.Do(t, syscall.Mkfifo(filepath.Join(h.Proc, "9/cmdline"), 0o600))
	checktest.Want(t, checktest.Run(t, runnable(start.InitStall), h), "", probe.OK, "no init container")
	checktest.Want(t, checktest.Run(t, runnable(bgp.BirdConfig), h), "", probe.Skip, "does not run BIRD")
	if _, ok, err := node.CalicoProcess(h, "felix"); !ok || err != nil {
		t.Error(ok, err)
	}
}
