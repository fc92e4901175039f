package injector

import (
	"os/exec"
	"syscall"
)

// apart keeps the terminal's Ctrl-C from a child program.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
