package checks

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

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// InitStall looks at the processes of calico-node's init containers themselves. In
// the field one had been "Running" for half an hour without an event or a log
// line; on another night the runtime called one running that had long ended.
var InitStall = &probe.Check{
	ID: "init-stall", Asks: "is an init container of calico-node still running, and what is it doing?",
	From: probe.FromNode,
	Tags: []string{tagCNI, tagRuntime}, Access: []string{"host processes", "SYS_PTRACE"}, In: probe.Standard,
	Run: probe.Once(initStall),
	Doc: `The programs of the init containers (calico-ipam -upgrade, install, calico-node -init) are looked for among the node's processes.
ok: none is running. info: one is, for less than two minutes. fail: one has been running for longer, so it hangs: the evidence has its state, what it waits for in the kernel, its open files and where its connections lead, as far as this access method shows them. One that waits for the API server shows a connection in the state syn-sent, or none. ipam-files and datastore-latency hold the known reasons.
When the API says that an init container is running (calico-pod) and this check finds no such process, the container runtime's state is stale: look at containerd-health and docker-health.
skip: the node's processes are not visible by this access method.`,
}

// Facts of init-stall.
const (
	FactProgram probe.Fact = "program" // upgrade-ipam, install-cni, mount-bpffs
	FactPID     probe.Fact = "pid"
	FactAge     probe.Fact = "age_s"         // seconds the process has lived
	FactProcess probe.Fact = "process_state" // one letter: S sleeps, D waits for a device, T is stopped
	FactWaits   probe.Fact = "waits"         // kernel function it waits in, "" when not visible
	FactLeads   probe.Fact = "leads"         // where its TCP connections lead, and their states
)

// initPatience is how long an init container may take: each is a matter of
// seconds, pulled images included.
const initPatience = 2 * time.Minute

func initStall(_ context.Context, h *probe.Host) probe.Result {
	if !seesProcesses(h) {
		return noProcesses
	}
	all, err := processesOf(h, inNodesNetwork, func(comm string) bool {
		return slices.Contains([]string{"calico-ipam", "install", "calico-node"}, comm)
	})
	if err != nil {
		return probe.Failed(err)
	}
	for _, p := range all {
		if program := initProgram(p.args); program != "" {
			return atWork(h, p.Proc, program)
		}
	}
	return probe.Found(probe.OK, "no init container of calico-node is running")
}

// initProgram names the init container whose program this is.
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

func atWork(h *probe.Host, p procfs.Proc, program string) probe.Result {
	stat, age, err := ageOf(p)
	if err != nil {
		return probe.Failed(fmt.Errorf("looking at process %d: %w", p.PID, err))
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
	return r.With(FactProgram, program).With(FactPID, p.PID).With(FactAge, int(age.Seconds())).
		With(FactProcess, stat.State).
		With(FactWaits, waits).With(FactLeads, leads).Because(slices.Concat(open, stack(h, p.PID))...)
}

// ageOf is what the kernel says of a process, and for how long there has been one.
func ageOf(p procfs.Proc) (procfs.ProcStat, time.Duration, error) {
	stat, err := p.Stat()
	if err != nil {
		return stat, 0, err
	}
	started, err := stat.StartTime()
	return stat, time.Since(time.Unix(int64(started), 0)).Round(time.Second), err
}

// openFiles lists what a process has open and, of that, where its connections lead,
// without a word where that is not visible.
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
			continue // just closed
		}
		open = append(open, to)
		wanted[kernel.SocketInode(to)] = true
	}
	delete(wanted, 0)
	sockets, err := tcpByInode(wanted)
	if err != nil {
		sockets = nil // then they are numbers alone
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

// tcpByInode describes the TCP sockets of this network namespace that have these
// numbers.
func tcpByInode(wanted map[uint32]bool) (map[uint32]string, error) {
	out := map[uint32]string{}
	err := kernel.TCP(kernel.Open, 0, 0, func(s kernel.Socket) {
		if wanted[s.Inode] {
			out[s.Inode] = fmt.Sprintf("TCP %s to %s, %s", s.Near, s.Far, s.State)
		}
	})
	return out, err
}

// stack is where in the kernel a process is, the innermost first; none where that
// takes more than this probe has.
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
