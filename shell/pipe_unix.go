//go:build !windows

package shell

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
)

// local is a command of the user's machine, ended with ctx. Its shell outlives a Ctrl-C
// that what it runs takes for something else, as less does.
func local(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", "trap : INT\n"+command)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd
}

// closedEarly tells whether an error is one of writing to who does not read any more.
func closedEarly(err error) bool { return errors.Is(err, syscall.EPIPE) }
