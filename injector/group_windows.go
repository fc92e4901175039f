package injector

import (
	"os/exec"
	"syscall"
)

// apart keeps the terminal's Ctrl-C from a program that this one has started.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
