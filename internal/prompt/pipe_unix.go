//go:build !windows

package prompt

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// local returns a local command that is stopped when ctx ends. Its shell survives a Ctrl-C, because programs such as
// less handle Ctrl-C themselves.
func local(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", "trap : INT\n"+command)
	cmd.Cancel = func() error { // the shell would keep the signal from a pager, which would then keep the terminal
		for _, pid := range below(cmd.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGTERM) // it may have already exited
		}
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	return cmd
}

// below returns the descendants of a process; nil if this machine hides them.
func below(pid int) []int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ps", "-A", "-o", "pid=", "-o", "ppid=").Output()
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for line := range strings.Lines(string(out)) {
		var child, parent int
		if n, _ := fmt.Sscan(line, &child, &parent); n == 2 {
			children[parent] = append(children[parent], child)
		}
	}
	all := children[pid]
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// closedEarly reports whether a write failed because the reader closed the pipe.
func closedEarly(err error) bool { return errors.Is(err, syscall.EPIPE) }
