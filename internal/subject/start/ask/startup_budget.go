package ask

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// startupBudgetCheck binds start.StartupBudget to the function that runs it.
var startupBudgetCheck = answers.To(start.StartupBudget, startupBudget)

// Facts of startup-budget.
const factTrip probe.Fact = "trip_ms" // the time for one request to the datastore

const (
	// startupCalls is the approximate number of sequential requests when calico-node starts. The actual number
	// is between 12 and 20 (startup.go, tunnel addresses).
	startupCalls = 20
	// startupWork is the CPU time that a start needs in addition to the requests. Three programs run one after
	// another until Felix answers. In the incident, the log of an idle node covered 0.7 s, not counting the starts of
	// the programs themselves.
	startupWork = 2 * time.Second
)

func startupBudget(ctx context.Context, p *probe.Pass) {
	set := p.Of(probe.KindCalico)
	if len(set) == 0 {
		p.Report(node.Gap(p, probe.KindCalico, "no calico-node found on this node"))
		return
	}
	seconds, err := strconv.Atoi(set[0].Attrs[probe.AttrBudget])
	if err != nil || seconds <= 0 {
		p.Report(probe.Found(probe.Skip, "calico-node has no liveness or startup probe that could kill it"))
		return
	}
	budget := time.Duration(seconds) * time.Second
	p.Report(measure(p.Host, budget).On("measured").With(start.FactBudget, seconds))
	next := estimate(ctx, p, budget)
	if next.Status == probe.Fail {
		switch _, runs, err := node.CalicoProcess(p.Host, "felix"); {
		case runs: // until the kubelet restarts the container
			next.Status = probe.Warn
			next.Saw += "; Felix is running, so this applies to its next start"
		case err != nil, !node.SeesProcesses(p.Host):
			next.Status = probe.Warn
			next.Saw += "; unknown whether Felix is running"
		}
	}
	p.Report(next.On("estimate").With(start.FactBudget, seconds))
}

// measure determines how long start-up took. It uses the ages of the processes in calico-node's container.
func measure(h *probe.Host, budget time.Duration) probe.Result {
	if !node.SeesProcesses(h) {
		return node.NoProcesses
	}
	took, over, err := startUp(h)
	if err != nil {
		return node.Unseen(err)
	}
	late, spent := probe.Warn, probe.Fail
	if over { // start-up succeeded, perhaps slowly because the whole cluster was starting
		late, spent = probe.Info, probe.Warn
	}
	status := probe.OK
	switch {
	case took > budget:
		status = spent
	case took > budget/2:
		status = late
	}
	r := probe.Found(status, "start-up took %v until Felix started; calico-node's probe allows %v", took, budget)
	if !over {
		r.Saw = fmt.Sprintf("start-up has been running for %v and has not started Felix; calico-node's probe allows %v", took, budget)
	}
	return r.With(start.FactStartup, took.Seconds()).With(start.FactOver, over)
}

// startUp returns the time between the start of the container's first process and the start of Felix's
// supervisor, which keeps running when Felix restarts. If start-up is not complete, it returns the time so far.
func startUp(h *probe.Host) (took time.Duration, over bool, err error) {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return 0, false, fmt.Errorf("opening %s: %w", h.Proc, err)
	}
	if p, ok, err := node.CalicoProcess(h, "felix"); err != nil {
		return 0, false, err
	} else if ok {
		// runsvdir replaces the start-up script and starts runsv, which starts Felix.
		watch, err := parent(proc, p)
		if err != nil {
			return 0, false, err
		}
		if watch.Comm != "runsv" {
			return 0, false, fmt.Errorf("the start of Felix (by %s, not runit): %w", watch.Comm, probe.ErrNotVisible)
		}
		first, err := firstOf(proc, watch)
		if err != nil {
			return 0, false, err
		}
		return ticks(watch.Starttime - min(first.Starttime, watch.Starttime)), true, nil
	}
	for _, phase := range []string{"startup", "allocate-tunnel-addrs"} {
		if p, ok, err := node.CalicoProcess(h, phase); err == nil && ok {
			first, err := firstOf(proc, p)
			if err != nil {
				return 0, false, err
			}
			up, err := uptime(h)
			if err != nil {
				return 0, false, err
			}
			return max(0, up-ticks(first.Starttime)), false, nil
		}
	}
	return 0, false, fmt.Errorf("processes of calico-node: %w", probe.ErrNotVisible)
}

func parent(proc procfs.FS, of procfs.ProcStat) (procfs.ProcStat, error) {
	p, err := proc.Proc(of.PPID)
	if err != nil {
		return procfs.ProcStat{}, fmt.Errorf("reading process %d: %w", of.PPID, err)
	}
	stat, err := p.Stat()
	if err != nil {
		return procfs.ProcStat{}, fmt.Errorf("reading process %d: %w", of.PPID, err)
	}
	return stat, nil
}

// firstOf returns the first process in a process's container, which has PID 1 there.
func firstOf(proc procfs.FS, of procfs.ProcStat) (procfs.ProcStat, error) {
	for of.PPID > 0 {
		p, err := proc.Proc(of.PID)
		if err != nil {
			return procfs.ProcStat{}, fmt.Errorf("reading process %d: %w", of.PID, err)
		}
		status, err := p.NewStatus()
		if err != nil {
			return procfs.ProcStat{}, fmt.Errorf("reading process %d: %w", of.PID, err)
		}
		if n := status.NSpids; len(n) > 1 && n[len(n)-1] == 1 {
			return of, nil
		}
		if of, err = parent(proc, of); err != nil {
			return procfs.ProcStat{}, err
		}
	}
	return procfs.ProcStat{}, fmt.Errorf("the first process of calico-node's container: %w", probe.ErrNotVisible)
}

// ticks converts a time from the unit that the kernel uses for programs (USER_HZ). On all
// architectures, the unit is a hundredth of a second.
func ticks(n uint64) time.Duration { return time.Duration(n) * 10 * time.Millisecond }

func uptime(h *probe.Host) (time.Duration, error) {
	text, err := kernel.ReadProc(h, "uptime")
	if err != nil {
		return 0, err
	}
	var s float64
	if _, err := fmt.Sscan(text, &s); err != nil {
		return 0, fmt.Errorf("reading /proc/uptime: %w", err)
	}
	return time.Duration(s * float64(time.Second)), nil
}

// estimate measures the round trip to the datastore and estimates the start-up time.
func estimate(ctx context.Context, p *probe.Pass, budget time.Duration) probe.Result {
	targets := p.Of(probe.KindDatastore)
	// If Calico uses etcd, it does not keep data anywhere else.
	if slices.ContainsFunc(targets, func(t probe.Target) bool { return t.Name == node.NameEtcd }) {
		targets = slices.DeleteFunc(targets, func(t probe.Target) bool { return t.Name != node.NameEtcd })
	}
	if len(targets) == 0 {
		return node.Gap(p, probe.KindDatastore, "the datastore's address is unknown")
	}
	one, _, cancel := node.Part(ctx, 4)
	defer cancel()
	answers := make(chan []node.Trip, len(targets))
	node.Each(targets, func(t probe.Target) {
		trips, _, _, _ := node.Travels(one, p.Host, t)
		answers <- trips
	})
	close(answers)
	var far, shortest time.Duration
	for trips := range answers {
		if len(trips) == 0 {
			continue // datastore-latency reports it
		}
		for _, t := range trips {
			if shortest == 0 || t.Connect < shortest {
				shortest = t.Connect
			}
		}
		// The requests share a connection. Each request therefore takes as long as an answer, or as
		// long as a round trip if that is longer.
		near := node.Median(trips, func(t node.Trip) time.Duration { return max(t.Answer, t.Connect) })
		if far == 0 || near < far {
			far = near // the best of several servers
		}
	}
	if far == 0 {
		return probe.Found(probe.Skip,
			"the datastore does not answer (see datastore-latency), so the start-up time is unknown")
	}
	stretch := slowness(p.Host)
	takes := time.Duration(float64(startupWork)*stretch) + startupCalls*far
	status := probe.OK
	switch {
	case takes > budget:
		status = probe.Fail
	case takes > budget/2:
		status = probe.Warn
	}
	r := probe.Found(status, "calico-node takes about %v to start: %d calls of %v", takes.Round(time.Second),
		startupCalls, far.Round(100*time.Microsecond))
	if stretch >= 1.5 {
		r.Saw += fmt.Sprintf(", plus its own work, which the load makes %.1f times as long", stretch)
	}
	r.Saw += fmt.Sprintf("; calico-node's probe allows %v", budget)
	return r.With(start.FactStartup, takes.Seconds()).With(start.FactStretch, stretch).
		With(factTrip, node.Milliseconds(far)).With(start.FactFar, node.Milliseconds(shortest)).With(start.FactCalls,
		startupCalls).
		With(start.FactWork, startupWork.Seconds()*stretch)
}

// slowness returns the factor by which work takes longer than on an idle node. The factor is the load per CPU. If the
// kernel reports that few tasks wait for a CPU, the load has another cause, such as a disk, and does not slow down CPU
// work.
func slowness(h *probe.Host) float64 {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return 1
	}
	load, err := proc.LoadAvg()
	if err != nil {
		return 1
	}
	stat, err := proc.Stat()
	if err != nil || len(stat.CPU) == 0 {
		return 1
	}
	if psi, err := proc.PSIStatsForResource("cpu"); err == nil && psi.Some != nil && psi.Some.Avg10 < cpuWaiting {
		return 1
	}
	return max(1, load.Load1/float64(len(stat.CPU)))
}

// cpuWaiting is the limit of CPU pressure, in percent of the time. Below it, the load does not come from CPU
// contention. If there are twice as many tasks as CPUs, the pressure is near 100.
const cpuWaiting = 50
