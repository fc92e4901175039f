//go:build !windows

package injector

import (
	"os/exec"
	"syscall"
)

// apart keeps what the user's terminal sends to the program in front, Ctrl-C above all,
// from one that it has started: a command may end, and the line it used go on.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
