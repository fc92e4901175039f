//go:build !windows

package injector

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// apart starts a program in its own process group, so the user's Ctrl-C does not reach it. A command may exit while its
// connection stays open. When the program's context ends, the whole group gets SIGTERM, which gives a shell time to run
// its trap. Processes that remain after WaitDelay are killed.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
}
