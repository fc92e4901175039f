//go:build !windows

package injector

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// apart starts a program in its own process group, so that the user's Ctrl-C does not reach it: a command may end
// while the connection that it used stays. When the program's context ends, the whole group gets SIGTERM, with which
// a shell can run its trap; SIGKILL would prevent that. What is left after WaitDelay is killed.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
}
