package checks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/probe"
)

// NodeSwap asks for what kills a kubelet at its next start: in the field, swap
// that came back with a reboot.
var NodeSwap = &probe.Check{
	ID: "node-swap", Asks: "is swap on?", From: probe.FromNode,
	Tags: []string{tagHost}, Access: []string{"proc", "var/lib/kubelet/config.yaml"}, Run: probe.Once(nodeSwap),
	Doc: `A kubelet that is not told otherwise (failSwapOn) ends at its start when swap is on: "running with swap on is not supported". A kubelet that runs already is not touched, so the fault shows at the next restart.
ok: no swap. fail: swap is on. info: swap is on and the kubelet's configuration accepts it.`,
}

// NodeLoad asks whether the node is too busy to do anything in time: in the
// field, a load of tens of times the peers' made every start outlast its budget.
var NodeLoad = &probe.Check{
	ID: "node-load", Asks: "is the node overloaded?", From: probe.FromNode,
	Tags: []string{tagHost}, Access: []string{"proc"}, Run: probe.Once(nodeLoad),
	Doc: `The load average of the last minute against the number of CPUs, and the kernel's own measure of how long tasks waited (pressure stall information), where it has one.
ok: less than 4 for each CPU. warn: 4 or more: starts and probes get slow. fail: 10 or more: processes wait for most of their time, and a container's start can outlast its liveness budget.
The load also counts processes stuck in disk or network file systems: then it is high while the CPUs are idle, and the pressure on CPU is low.`,
}

// Facts of the host checks.
const (
	FactSwaps       probe.Fact = "swaps"        // file names of what is swapped to
	FactAllowed     probe.Fact = "allowed"      // the kubelet's configuration accepts swap
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

const kubeletConfig = "/var/lib/kubelet/config.yaml"

func nodeSwap(_ context.Context, h *probe.Host) probe.Result {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return probe.Failed(fmt.Errorf("opening %s: %w", h.Proc, err))
	}
	swaps, err := proc.Swaps()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return probe.Found(probe.OK, "this kernel has no swap").With(FactSwaps, []string{})
	case err != nil:
		return probe.Failed(fmt.Errorf("reading /proc/swaps: %w", err))
	case len(swaps) == 0:
		return probe.Found(probe.OK, "no swap").With(FactSwaps, []string{})
	}
	var names, evidence []string
	for _, s := range swaps {
		names = append(names, s.Filename)
		evidence = append(evidence, fmt.Sprintf("%s %s size %d KiB, used %d KiB, priority %d", s.Filename, s.Type, s.Size, s.Used, s.Priority))
	}
	r := probe.Found(probe.Fail, "swap is on: %s", strings.Join(names, ", "))
	if allowsSwap(h) {
		r = probe.Found(probe.Info, "swap is on, and the kubelet is set to accept it (failSwapOn: false): %s", strings.Join(names, ", "))
	}
	return r.With(FactSwaps, names).With(FactAllowed, r.Status == probe.Info).Because(evidence...)
}

// allowsSwap tells whether the kubelet's configuration file says so. Without
// the file the kubelet's default holds, which does not.
func allowsSwap(h *probe.Host) bool {
	config, err := h.ReadFile(kubeletConfig)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(config)) {
		if value, ok := strings.CutPrefix(line, "failSwapOn:"); ok {
			value, _, _ = strings.Cut(value, "#")
			return strings.TrimSpace(value) == "false"
		}
	}
	return false
}

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
