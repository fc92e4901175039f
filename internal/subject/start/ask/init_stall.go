package ask

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// initStallCheck binds start.InitStall to the function that runs it.
var initStallCheck = answers.To(start.InitStall, probe.Once(initStall))

// initPatience is the maximum time that an init container may take. Each init container takes
// seconds, including the time to pull its image.
const initPatience = 2 * time.Minute

func initStall(_ context.Context, h *probe.Host) probe.Result {
	if !node.SeesProcesses(h) {
		return node.NoProcesses
	}
	all, err := node.ProcessesOf(h, node.InNodesNetwork, func(comm string) bool {
		return slices.Contains([]string{"calico-ipam", "install", "calico-node"}, comm)
	})
	if err != nil {
		return probe.Failed(err)
	}
	for _, p := range all {
		if program := initProgram(p.Args); program != "" {
			return judgeProgram(h, p.Proc, program)
		}
	}
	return probe.Found(probe.OK, "no init container of calico-node is running")
}

// initProgram returns the init container to which a program belongs, or "".
func initProgram(args []string) string {
	switch filepath.Base(args[0]) {
	case "calico-ipam":
		if slices.Contains(args, "-upgrade") {
			return "upgrade-ipam"
		}
	case "install":
		if strings.HasPrefix(args[0], "/opt/cni/bin/") {
			return "install-cni"
		}
	case "calico-node":
		if slices.Contains(args, "-init") {
			return "mount-bpffs"
		}
	}
	return ""
}

func judgeProgram(h *probe.Host, p procfs.Proc, program string) probe.Result {
	stat, age, err := node.AgeOf(p)
	if err != nil {
		return probe.Failed(fmt.Errorf("reading process %d: %w", p.PID, err))
	}
	status := probe.Info
	if age > initPatience {
		status = probe.Fail
	}
	r := probe.Found(status, "%s (process %d) has been running for %v, state %s", program, p.PID, age, stat.State)
	waits := ""
	if text, err := kernel.ReadProc(h, fmt.Sprintf("%d/wchan", p.PID)); err == nil && text != "0" {
		waits = strings.TrimSpace(text)
		r.Saw += ", waiting in " + waits
	}
	open, leads := openFiles(h, p.PID)
	return r.With(probe.FactProgram, program).With(probe.FactPID, p.PID).With(node.FactAge, int(age.Seconds())).
		With(start.FactProcess, stat.State).
		With(start.FactWaits, waits).With(start.FactLeads, leads).Because(slices.Concat(open, stack(h, p.PID))...)
}

// openFiles lists a process's open files, and the remote ends of its connections. If they are not
// visible, the list is empty.
func openFiles(h *probe.Host, pid int) (open, leads []string) {
	dir := filepath.Join(h.Proc, strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil
	}
	wanted := map[uint32]bool{}
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // it was just closed
		}
		open = append(open, to)
		wanted[kernel.SocketInode(to)] = true
	}
	delete(wanted, 0)
	sockets, err := tcpByInode(wanted)
	if err != nil {
		sockets = nil // in that case, a socket is shown only by its inode
	}
	for i, to := range open {
		socket := sockets[kernel.SocketInode(to)]
		if socket != "" {
			leads = append(leads, socket)
		}
		open[i] = "open: " + cmp.Or(socket, to)
	}
	return open, leads
}

// tcpByInode describes the TCP sockets in this network namespace that have the given inode numbers.
func tcpByInode(wanted map[uint32]bool) (map[uint32]string, error) {
	out := map[uint32]string{}
	err := kernel.TCP(kernel.Open, 0, 0, func(s kernel.Socket) {
		if wanted[s.Inode] {
			out[s.Inode] = fmt.Sprintf("TCP %s to %s, %s", s.Near, s.Far, s.State)
		}
	})
	return out, err
}

// stack returns a process's kernel stack, with the innermost function first. Without the privilege
// to read the stack, it returns nothing.
func stack(h *probe.Host, pid int) []string {
	const deep = 4
	text, err := kernel.ReadProc(h, fmt.Sprintf("%d/stack", pid))
	if err != nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(text) {
		if len(out) < deep {
			out = append(out, "stack: "+strings.TrimSpace(line))
		}
	}
	return out
}
