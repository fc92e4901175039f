package injector

import (
	"os/exec"
	"syscall"
)

// apart prevents the terminal's Ctrl-C from reaching a child program.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
