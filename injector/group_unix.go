//go:build !windows

package injector

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// apart starts a program in a process group of its own, which the user's Ctrl-C does not reach: a command may end, and
// the line it used go on. When the program's context ends, the whole group gets SIGTERM: a shell can then run its
// trap, which SIGKILL would prevent. What is left after WaitDelay is killed.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
}
