package ask

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// nodeMemoryCheck binds host.NodeMemory to the function that runs it.
var nodeMemoryCheck = answers.To(host.NodeMemory, nodeMemory)

// Facts of node-memory.
const factOOMKills probe.Fact = "oom_kills" // since boot, or since the container started

func nodeMemory(_ context.Context, p *probe.Pass) {
	p.Report(memory(p.Host))
	if kills, limited, known := oomKillsInside(p.Host); known {
		r := probe.Found(probe.OK, "no OOM kill in calico-node's container since it started")
		if kills > 0 {
			r = probe.Found(probe.Warn, "%d OOM kills in calico-node's container since it started; the container kept running",
				kills)
			if limited {
				r.Saw += "; the container has a memory limit"
			}
		}
		p.Report(r.On(host.TargetCalicoMemory).With(factOOMKills, kills).With(host.FactLimited, limited))
	}
}

func memory(h *probe.Host) probe.Result {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return probe.Failed(fmt.Errorf("opening %s: %w", h.Proc, err))
	}
	m, err := proc.Meminfo()
	if err != nil {
		return probe.Failed(fmt.Errorf("reading /proc/meminfo: %w", err))
	}
	if m.MemAvailableBytes == nil || m.MemTotalBytes == nil || *m.MemTotalBytes == 0 {
		return probe.Found(probe.Unknown, "/proc/meminfo has no MemAvailable")
	}
	available, total := *m.MemAvailableBytes, *m.MemTotalBytes
	r := host.JudgeMemory(available, total)
	kills, known := oomKills(h)
	if kills > 0 && r.Status == probe.OK {
		r.Status = probe.Info
	}
	if known {
		r = r.With(factOOMKills, kills)
	}
	if kills > 0 {
		r.Saw += fmt.Sprintf("; %d OOM kills since boot", kills)
	}
	return r
}

// oomKills returns the kernel's count of OOM kills since boot (from Linux 4.13).
func oomKills(h *probe.Host) (int, bool) {
	text, err := kernel.ReadProc(h, "vmstat")
	if err != nil {
		return 0, false
	}
	return oomKill(text)
}

// oomKillsInside returns the kernel's count of OOM kills in calico-node's container. It also reports whether the
// container has a limit. The count includes kills that happened because the whole node was out of memory.
func oomKillsInside(h *probe.Host) (kills int, limited, known bool) {
	if !node.SeesProcesses(h) {
		return 0, false, false
	}
	one, ok := calicoPID(h)
	if !ok {
		return 0, false, false
	}
	// File names in cgroup v2 and v1.
	for _, file := range [][2]string{{"memory.events", "memory.max"}, {"memory.oom_control", "memory.limit_in_bytes"}} {
		if text, err := cgroupFile(h, one, "memory", file[0]); err == nil {
			kills, known = oomKill(text)
			limit, _ := cgroupFile(h, one, "memory", file[1])
			n, err := strconv.ParseInt(strings.TrimSpace(limit), 10, 64) // v2 shows "max" for no limit
			return kills, err == nil && n < noLimit, known
		}
	}
	return 0, false, false
}

// calicoPID returns a process in calico-node's container. It is Felix, or another process if Felix
// is killed repeatedly.
func calicoPID(h *probe.Host) (pid int, found bool) {
	for _, what := range []string{"felix", "confd", "node-services", "monitor-addresses"} {
		if p, ok, err := node.CalicoProcess(h, what); err == nil && ok {
			return p.PID, true
		}
	}
	birds, err := node.ProcessesOf(h, node.InNodesNetwork,
		func(comm string) bool { return strings.HasPrefix(comm, "bird") })
	if err != nil {
		return 0, false
	}
	for _, p := range birds {
		if slices.ContainsFunc(p.Args, func(a string) bool { return strings.HasPrefix(a, "/var/run/calico/bird") }) {
			return p.PID, true
		}
	}
	return 0, false
}

// noLimit is lower than every value that means "no limit" in cgroup v1. That value is the maximum integer
// rounded down to a page, and page sizes differ.
const noLimit = 1 << 62

// oomKill parses the number of OOM kills from a file of names and numbers.
func oomKill(text string) (int, bool) {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(v))
			return n, err == nil
		}
	}
	return 0, false
}
