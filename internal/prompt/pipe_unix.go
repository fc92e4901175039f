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

// local is a command of the user's machine, ended with ctx. Its shell outlives a Ctrl-C
// that what it runs takes for something else, as less does.
func local(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", "trap : INT\n"+command)
	cmd.Cancel = func() error { // its shell would keep the signal from a pager, which would keep the terminal
		for _, pid := range below(cmd.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended
		}
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	return cmd
}

// below are the processes that one has started, and those they have; none where this
// machine does not say.
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

// closedEarly tells whether an error is one of writing to who does not read any more.
func closedEarly(err error) bool { return errors.Is(err, syscall.EPIPE) }
