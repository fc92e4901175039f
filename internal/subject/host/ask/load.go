package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// nodeLoadCheck binds host.NodeLoad to the function that runs it.
var nodeLoadCheck = answers.To(host.NodeLoad, nodeLoad)

// Facts of node-load.
const (
	factIOPressure  probe.Fact = "io_pressure"       // percent of the time in which some tasks waited for disks
	factMemPressure probe.Fact = "mem_pressure"      // percent of the time in which some tasks waited for memory
	factIOFull      probe.Fact = "io_pressure_full"  // percent of the time in which all tasks waited for disks
	factMemFull     probe.Fact = "mem_pressure_full" // percent of the time in which all tasks waited for memory
	factSteal       probe.Fact = "steal"             // percent of the time that the hypervisor gave to other machines
)

// The load per CPU from which a node counts as slow or overloaded. In the incident, the broken nodes had more than ten,
// and the healthy nodes less than one.
const (
	loadSlow       = 4
	loadOverloaded = 10
)

const (
	loadPause = 500 * time.Millisecond // the time between two readings: 50 kernel ticks on each CPU
	// highSteal is well above what a neighbour's burst causes within half a second. A virtual machine that has no
	// CPU credits left has 50 or more.
	highSteal = 30
	// highThrottling is the threshold in the Prometheus rule for Kubernetes (CPUThrottlingHigh).
	highThrottling = 25
	// minPeriods is the minimum number of periods that an evaluation needs: ten seconds in periods of 100 ms.
	minPeriods = 100
)

func nodeLoad(ctx context.Context, p *probe.Pass) {
	p.Report(load(ctx, p.Host, p.Brief))
	if r, limited := throttling(p.Host); limited {
		p.Report(r.On("calico-node cpu"))
	}
}

func load(ctx context.Context, h *probe.Host, brief bool) probe.Result {
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
		return probe.Found(probe.Unknown, "load %.2f, but /proc/stat does not list a CPU", load.Load1)
	}
	each := load.Load1 / float64(cpus)
	r := probe.Found(probe.OK, "load %.2f on %d CPUs", load.Load1, cpus)
	if each >= loadSlow { // a fault only if something else does not work
		r.Status = probe.Warn
		r.Saw += fmt.Sprintf(", %.0f per CPU", each)
	}
	r = r.With(host.FactOverloaded, each >= loadOverloaded).With(host.FactLoad, load.Load1).With(host.FactCPUs, cpus)

	if brief {
		return pressures(proc, r)
	}
	waiting := uninterruptible(proc)
	select {
	case <-ctx.Done():
		return r // not enough time for a second reading
	case <-time.After(loadPause):
	}
	if later, err := proc.Stat(); err == nil {
		r = withSteal(r, steal(stat.CPUTotal, later.CPUTotal))
	}
	if node.SeesProcesses(h) {
		r = withStuck(h, r, waiting, uninterruptible(proc))
	}
	return pressures(proc, r)
}

// withSteal adds the percentage of the time that the hypervisor gave to other machines.
func withSteal(r probe.Result, stolen float64) probe.Result {
	r = r.With(factSteal, stolen)
	if stolen >= highSteal {
		r.Saw += fmt.Sprintf("; the hypervisor gave %.0f %% of the CPU time to other machines (steal)", stolen)
		if r.Status == probe.OK {
			r.Status = probe.Warn
		}
	}
	return r
}

// withStuck adds the processes that were in uninterruptible sleep in both readings.
func withStuck(h *probe.Host, r probe.Result, before, now map[int]string) probe.Result {
	var stuck []string
	for pid, name := range now {
		if before[pid] == name {
			stuck = append(stuck, stuckAt(h, pid, name))
		}
	}
	slices.Sort(stuck)
	r = r.With(host.FactStuck, len(stuck)).With(host.FactStuckIn, node.First(stuck))
	if len(stuck) == 0 {
		return r
	}
	r.Saw += fmt.Sprintf("; %d processes are in uninterruptible sleep (waiting for a device or file system): %s",
		len(stuck), node.Some(stuck))
	if r.Status == probe.OK {
		r.Status = probe.Info
	}
	return r.Because(node.First(stuck)...)
}

// pressures adds the kernel's pressure stall information as evidence for a bad result. Kernels before 4.20, and
// kernels that were built without it, do not have these files.
func pressures(proc procfs.FS, r probe.Result) probe.Result {
	var waits []string
	for _, of := range []struct {
		resource   string
		some, full probe.Fact
	}{{"cpu", host.FactCPUPressure, ""}, {"io", factIOPressure, factIOFull}, {"memory", factMemPressure, factMemFull}} {
		psi, err := proc.PSIStatsForResource(of.resource)
		if err != nil || psi.Some == nil {
			continue
		}
		r = r.With(of.some, psi.Some.Avg10)
		waits = append(waits, fmt.Sprintf("%s: some tasks waited %.0f %% of the last 10 s", of.resource, psi.Some.Avg10))
		if psi.Full != nil && of.full != "" {
			r = r.With(of.full, psi.Full.Avg10)
			waits[len(waits)-1] += fmt.Sprintf(", all tasks %.0f %%", psi.Full.Avg10)
		}
	}
	if r.Status == probe.Warn {
		r = r.Because(waits...)
	}
	return r
}

// steal returns the percentage of the time between two readings that the hypervisor gave to other machines.
func steal(a, b procfs.CPUStat) float64 {
	whole := func(c procfs.CPUStat) float64 { // the user time already includes the guests' time
		return c.User + c.Nice + c.System + c.Idle + c.Iowait + c.IRQ + c.SoftIRQ + c.Steal
	}
	passed := whole(b) - whole(a)
	if passed <= 0 {
		return 0
	}
	return max(0, (b.Steal-a.Steal)*100/passed)
}

// uninterruptible lists the processes in uninterruptible sleep, by PID.
func uninterruptible(proc procfs.FS) map[int]string {
	out := map[int]string{}
	all, err := proc.AllProcs()
	if err != nil {
		return out
	}
	for _, p := range all {
		stat, err := p.Stat()
		if err != nil {
			continue
		}
		if stat.State == "D" {
			out[p.PID] = stat.Comm
		}
		if stat.Comm == "kubelet" { // one of its threads may wait while the others run
			maps.Copy(out, waitingThreads(proc, p.PID))
		}
	}
	return out
}

// waitingThreads lists the threads of a process that are in uninterruptible sleep.
func waitingThreads(proc procfs.FS, pid int) map[int]string {
	out := map[int]string{}
	threads, err := proc.AllThreads(pid)
	if err != nil {
		return out
	}
	for _, t := range threads {
		if stat, err := t.Stat(); err == nil && stat.State == "D" {
			out[t.PID] = stat.Comm
		}
	}
	return out
}

// stuckAt adds the kernel function in which a process waits, if it is visible.
func stuckAt(h *probe.Host, pid int, name string) string {
	at := fmt.Sprintf("%s (%d)", name, pid)
	if text, err := kernel.ReadProc(h, fmt.Sprintf("%d/wchan", pid)); err == nil && text != "0" && text != "" {
		at += " in " + text
	}
	return at
}

// throttling reports how often calico-node's container reached its CPU limit. It returns false without a limit, or
// if the limit is not visible.
func throttling(h *probe.Host) (probe.Result, bool) {
	if !node.SeesProcesses(h) {
		return probe.Result{}, false
	}
	felix, ok, err := node.CalicoProcess(h, "felix")
	if err != nil || !ok {
		return probe.Result{}, false
	}
	file, err := cgroupFile(h, felix.PID, "cpu", "cpu.stat")
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, probe.ErrNotVisible), errors.Is(err, errors.ErrUnsupported):
		return probe.Result{}, false
	case err != nil:
		return probe.Failed(err), true
	}
	periods, times := limitsIn(file)
	if periods <= 0 {
		return probe.Result{}, false
	}
	share := float64(times) * 100 / float64(periods)
	r := probe.Found(probe.OK, "throttled at its CPU limit in %.0f %% of %d periods since it started", share, periods)
	if share >= highThrottling && periods >= minPeriods {
		r.Status = probe.Warn
	}
	return r.With(host.FactThrottled, share), true
}

// limitsIn reads the total number of periods, and the number of periods in which the limit was reached.
func limitsIn(stat string) (periods, throttled int) {
	for line := range strings.Lines(stat) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(value)
		switch {
		case err != nil:
		case name == "nr_periods":
			periods = n
		case name == "nr_throttled":
			throttled = n
		}
	}
	return periods, throttled
}

// cgroupFile reads a file in a process's cgroup, for either version of cgroups.
func cgroupFile(h *probe.Host, pid int, controller, file string) (string, error) {
	text, err := kernel.ReadProc(h, fmt.Sprintf("%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	hierarchy, dir := cgroupOf(text, controller)
	// Seen from outside the cgroup namespace, a path begins at the nearest common directory. That is the root, or
	// at most two levels below it (kubepods, and its class).
	dir = path.Clean("/" + dir)
	const levels = 3
	above := []string{path.Join("/sys/fs/cgroup", hierarchy)}
	var odd error // the first error other than a missing file
	for level := range levels {
		var below []string
		for _, top := range above {
			text, err := h.ReadFile(path.Join(top, dir, file))
			switch {
			case err == nil || errors.Is(err, probe.ErrNotVisible):
				return string(text), err
			case !errors.Is(err, fs.ErrNotExist):
				odd = cmp.Or(odd, err)
			}
			if level < levels-1 {
				below = append(below, foldersIn(h, top)...)
			}
		}
		above = below
	}
	return "", cmp.Or(odd, fmt.Errorf("%s of the cgroup %s: %w", file, dir, errors.ErrUnsupported))
}

// foldersIn returns the cgroups inside a cgroup. If the cgroup was just removed, the list is empty.
func foldersIn(h *probe.Host, top string) []string {
	names, err := h.ReadDir(top)
	if err != nil {
		return nil
	}
	var out []string
	for _, name := range names {
		if info, err := h.Stat(path.Join(top, name)); err == nil && info.IsDir() {
			out = append(out, path.Join(top, name))
		}
	}
	return out
}

// cgroupOf finds a controller's directory in a process's cgroup file. It is in the controller's own hierarchy, or in
// the unified one (version 2).
func cgroupOf(text, controller string) (hierarchy, dir string) {
	for line := range strings.Lines(text) {
		// 4:cpu,cpuacct:/kubepods/burstable/pod1/abc    0::/kubepods.slice/a.scope
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(f) < 3:
		case slices.Contains(strings.Split(f[1], ","), controller):
			return f[1], f[2]
		case f[1] == "":
			dir = f[2]
		}
	}
	return "", dir
}
