//go:build e2e

package ask

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestRealStart runs real processes in their own PID namespace, with the names of those in calico-node's container:
// Calico itself cannot run here.
func TestRealStart(t *testing.T) {
	dir, calicoNode := t.TempDir(), checktest.BashAs(t, "calico-node")
	for name, text := range map[string]string{
		"start_runit": "(exec " + calicoNode + " -c 'until [ -e " + dir + "/go ]; do sleep .1; done' -startup)\nexec " + dir + "/runsvdir",
		"runsvdir":    dir + "/runsv & wait",
		"runsv":       "(exec " + calicoNode + " -c 'sleep 600; true' -felix); true",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+text+"\n"), 0o755))
	}
	cmd := exec.Command(dir + "/start_runit")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	must.Do(t, cmd.Start())
	t.Cleanup(func() { checktest.Kill(t, cmd) })
	until := func(seconds string, s probe.Status, saw string) {
		t.Helper()
		checktest.Eventually(t, func() bool {
			return slices.ContainsFunc(checktest.Run(t, startupBudgetCheck, checktest.Only(t, cmd.Process.Pid),
				checktest.Budget(seconds)),
				func(r probe.Result) bool {
					return r.Target == "measured" && r.Status == s && strings.Contains(r.Saw, saw)
				})
		})
	}
	until("600", probe.OK, "running")
	until("1", probe.Fail, "running")
	must.Do(t, os.WriteFile(dir+"/go", nil, 0o600))
	until("600", probe.OK, "until Felix started")
	until("1", probe.Warn, "until Felix started")
}
