package injector

import (
	"os/exec"
	"syscall"
)

// apart keeps Ctrl-C in the user's terminal from a program that this one has started.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
