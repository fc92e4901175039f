package checks

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// NodeMemory asks whether the node runs out of memory, or has killed for it.
var NodeMemory = &probe.Check{
	ID: probe.CheckNodeMemory, Asks: "is memory short, or was something killed for it?", From: probe.FromNode,
	Tags: []string{tagHost}, Access: []string{"proc", "host processes", "sys/fs/cgroup"}, Run: nodeMemory,
	Doc: `What is available without swapping, as the kernel estimates it, and how many processes it has killed for memory since boot.
ok: enough, nothing killed. info: something was killed since boot, in this or another cgroup; calico-node's own state says whether it was that. warn: less than 5 % is available. fail: less than 100 MiB, where the kubelet evicts pods.
calico-node memory, where its container can be seen: ok: nothing in it was killed. warn: something in it was killed for memory since it was started, for the container's limit or the node's want, and runit started it anew, of which Kubernetes does not tell.`,
}

// Facts of node-memory.
const (
	FactAvailable probe.Fact = "available_bytes"
	FactTotal     probe.Fact = "total_bytes"
	FactOOMKills  probe.Fact = "oom_kills" // since boot, or since the container was started
	FactLimited   probe.Fact = "limited"   // whether the container has a memory limit of its own
)

// TargetCalicoMemory is node-memory's answer about calico-node's container.
const TargetCalicoMemory = "calico-node memory"

// memoryEvict is the kubelet's default threshold (evictionHard), in bytes.
const memoryEvict = 100 << 20

func nodeMemory(_ context.Context, p *probe.Pass) {
	p.Report(memory(p.Host))
	if kills, limited, known := killedInside(p.Host); known {
		r := probe.Found(probe.OK, "no OOM kill in its container since it started")
		if kills > 0 {
			r = probe.Found(probe.Warn, "%d OOM kills in its container since it started; the container kept running",
				kills)
			if limited {
				r.Saw += "; it has a memory limit of its own"
			}
		}
		p.Report(r.On(TargetCalicoMemory).With(FactOOMKills, kills).With(FactLimited, limited))
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
		return probe.Found(probe.Unknown, "/proc/meminfo does not say how much is available")
	}
	available, total := *m.MemAvailableBytes, *m.MemTotalBytes
	r := judgeMemory(available, total)
	kills, known := oomKills(h)
	if kills > 0 && r.Status == probe.OK {
		r.Status = probe.Info
	}
	if known {
		r = r.With(FactOOMKills, kills)
	}
	if kills > 0 {
		r.Saw += fmt.Sprintf("; %d OOM kills since boot", kills)
	}
	return r
}

// judgeMemory judges how much of the memory is available, in bytes.
func judgeMemory(available, total uint64) probe.Result {
	r := probe.Found(probe.OK, "%.1f of %.1f GB available", float64(available)/1e9, float64(total)/1e9)
	switch {
	case available < memoryEvict:
		r.Status = probe.Fail
	case available < total/20:
		r.Status = probe.Warn
	}
	return r.With(FactAvailable, available).With(FactTotal, total)
}

// oomKills is the kernel's count since boot (from Linux 4.13).
func oomKills(h *probe.Host) (int, bool) {
	text, err := kernel.ReadProc(h, "vmstat")
	if err != nil {
		return 0, false
	}
	return oomKill(text)
}

// killedInside is the kernel's count for calico-node's container, which has those
// that were killed for the whole node's want too, and whether it has a limit.
func killedInside(h *probe.Host) (kills int, limited, known bool) {
	if !seesProcesses(h) {
		return 0, false, false
	}
	one, ok := insideCalico(h)
	if !ok {
		return 0, false, false
	}
	// of cgroup v2 and v1
	for _, file := range [][2]string{{"memory.events", "memory.max"}, {"memory.oom_control", "memory.limit_in_bytes"}} {
		if text, err := cgroupFile(h, one, "memory", file[0]); err == nil {
			kills, known = oomKill(text)
			limit, _ := cgroupFile(h, one, "memory", file[1])
			n, err := strconv.ParseInt(strings.TrimSpace(limit), 10, 64) // v2 says "max"
			return kills, err == nil && n < noLimit, known
		}
	}
	return 0, false, false
}

// insideCalico is a process in calico-node's container: Felix, or another where Felix is killed again and again.
func insideCalico(h *probe.Host) (pid int, found bool) {
	for _, what := range []string{"felix", "confd", "node-services", "monitor-addresses"} {
		if p, ok, err := calicoProcess(h, what); err == nil && ok {
			return p.PID, true
		}
	}
	birds, err := processesOf(h, inNodesNetwork, func(comm string) bool { return strings.HasPrefix(comm, "bird") })
	if err != nil {
		return 0, false
	}
	for _, p := range birds {
		if slices.ContainsFunc(p.args, func(a string) bool { return strings.HasPrefix(a, "/var/run/calico/bird") }) {
			return p.PID, true
		}
	}
	return 0, false
}

// noLimit is where the numbers begin with which cgroup v1 says that there is none:
// the biggest there is, less a page, whose size differs.
const noLimit = 1 << 62

// oomKill finds the count in a file of names and numbers.
func oomKill(text string) (int, bool) {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(v))
			return n, err == nil
		}
	}
	return 0, false
}
