//go:build !windows

package runbook

import (
	"os"
	"os/exec"
	"syscall"
)

// alone starts a program in its own process group. A timeout then also kills the program's children.
func alone(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			return os.ErrProcessDone
		}
		return nil
	}
}
