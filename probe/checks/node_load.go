package checks

import (
	"context"
	"fmt"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/probe"
)

// NodeLoad asks whether the node is too busy to do anything in time: in the
// field, a load of tens of times the peers' made every start outlast its budget.
var NodeLoad = &probe.Check{
	ID: "node-load", Asks: "is the node overloaded?", From: probe.FromNode,
	Tags: []string{tagHost}, Access: []string{"proc"}, Run: probe.Once(nodeLoad),
	Doc: `The load average of the last minute against the number of CPUs, and the kernel's own measure of how long tasks waited (pressure stall information), where it has one.
ok: less than 4 for each CPU. warn: 4 or more: starts and probes get slow. fail: 10 or more: processes wait for most of their time, and a container's start can outlast its liveness budget.
The load also counts processes stuck in disk or network file systems: then it is high while the CPUs are idle, and the pressure on CPU is low.`,
}

// Facts of node-load.
const (
	FactLoad        probe.Fact = "load"         // of the last minute
	FactCPUs        probe.Fact = "cpus"         // count
	FactCPUPressure probe.Fact = "cpu_pressure" // percent of the last 10 s in which some task waited for a CPU
	FactIOPressure  probe.Fact = "io_pressure"  // percent, likewise for disks
	FactMemPressure probe.Fact = "mem_pressure" // percent, likewise for memory
)

// Load for each CPU from which a node is called slow or overloaded. The nodes of
// the incident stood at more than ten, their peers below one.
const (
	loadSlow       = 4
	loadOverloaded = 10
)

func nodeLoad(_ context.Context, h *probe.Host) probe.Result {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return probe.Failed(fmt.Errorf("opening %s: %w", h.Proc, err))
	}
	load, err := proc.LoadAvg()
	if err != nil {
		return probe.Failed(fmt.Errorf("reading /proc/loadavg: %w", err))
	}
	stat, err := proc.Stat()
	if err != nil {
		return probe.Failed(fmt.Errorf("reading /proc/stat: %w", err))
	}
	cpus := len(stat.CPU)
	if cpus == 0 {
		return probe.Found(probe.Unknown, "load %.2f, and /proc/stat names no CPU", load.Load1)
	}
	each := load.Load1 / float64(cpus)
	r := probe.Found(probe.OK, "load %.2f on %d CPUs", load.Load1, cpus)
	switch {
	case each >= loadOverloaded:
		r.Status = probe.Fail
	case each >= loadSlow:
		r.Status = probe.Warn
	}
	if r.Status != probe.OK {
		r.Saw += fmt.Sprintf(", %.0f for each", each)
	}
	r = r.With(FactLoad, load.Load1).With(FactCPUs, cpus)
	var waits []string
	for resource, fact := range map[string]probe.Fact{"cpu": FactCPUPressure, "io": FactIOPressure, "memory": FactMemPressure} {
		// Kernels before 4.20, and those built without it, have no such file.
		if psi, err := proc.PSIStatsForResource(resource); err == nil && psi.Some != nil {
			r = r.With(fact, psi.Some.Avg10)
			waits = append(waits, fmt.Sprintf("%s: some task waited %.0f %% of the last 10 s", resource, psi.Some.Avg10))
		}
	}
	if r.Status != probe.OK {
		r = r.Because(waits...)
	}
	return r
}
