package checks

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// StartupBudget holds what a start of calico-node takes against what its probe
// allows. In the field that was lost twice: on nodes with a load of tens of times
// their peers', and on a node far from the datastore. Both were killed a minute
// after each start, without a word in the log.
var StartupBudget = &probe.Check{
	ID: "startup-budget", Asks: "does calico-node start in the time its probe allows?", From: probe.FromNode,
	Tags: []string{tagFelix, tagDatastore}, Access: []string{"host network", "host processes"}, Run: startupBudget,
	Limit: 10 * time.Second,
	Doc: `Felix opens its health port when start-up is over: a chain of some twenty calls to the datastore, one after the other. A container whose liveness or startup probe fails for its whole budget before that is killed and begins again.
measured: how long start-up took until Felix started, by the ages of the processes in the container; or how long one that is still running has taken so far.
estimate: twenty calls at the distance measured just now, and what start-up works by itself, stretched by the load on the CPUs.
ok: less than half of the budget. info: the last start took more than half. warn: one that is at work has, or the estimate is; or the last start took longer than the budget and was spared; or the estimate is beyond the budget, and Felix runs, or whether it does is not seen. fail: a start that is at work has used up its budget; or the estimate is beyond it and no Felix is among the node's processes, so calico-node will be killed again and again. A longer initialDelaySeconds or failureThreshold, or a startup probe, gives it the time.
skip: calico-node has no such probe; or its processes are not visible.`,
}

// Facts of startup-budget.
const (
	FactStartup probe.Fact = "startup_s" // seconds start-up took, has taken, or would take
	FactBudget  probe.Fact = "budget_s"  // seconds its probe allows
	FactStretch probe.Fact = "stretch"   // by how much the load makes work last longer
	FactTrip    probe.Fact = "trip_ms"   // one call to the datastore
	// the shortest handshake of TCP with it: the way alone, without what a server or a load makes of it
	FactFar   probe.Fact = "far_ms"
	FactCalls probe.Fact = "calls"  // to the datastore in one start
	FactWork  probe.Fact = "work_s" // seconds a start computes besides, under this load
	FactOver  probe.Fact = "over"   // whether start-up has ended and Felix was started
)

const (
	// startupCalls is about how many calls one after the other a start of calico-node
	// makes, between 12 and 20 (startup.go, tunnel addresses).
	startupCalls = 20
	// startupWork is what it computes beside them, three programs one after the
	// other, before Felix answers: 0.7 s of log on an idle node of the incident, and
	// the starts of the programs themselves.
	startupWork = 2 * time.Second
)

func startupBudget(ctx context.Context, p *probe.Pass) {
	set := p.Of(probe.KindCalico)
	if len(set) == 0 {
		p.Report(gap(p, probe.KindCalico, "no calico-node is known on this node"))
		return
	}
	seconds, err := strconv.Atoi(set[0].Attrs[probe.AttrBudget])
	if err != nil || seconds <= 0 {
		p.Report(probe.Found(probe.Skip, "calico-node has no liveness or startup probe that could end it"))
		return
	}
	budget := time.Duration(seconds) * time.Second
	p.Report(measured(p.Host, budget).On("measured").With(FactBudget, seconds))
	next := estimated(ctx, p, budget)
	if next.Status == probe.Fail {
		switch _, runs, err := calicoProcess(p.Host, "felix"); {
		case runs: // as long as nobody starts it anew
			next.Status = probe.Warn
			next.Saw += "; Felix runs, so this is about its next start"
		case err != nil, !seesProcesses(p.Host):
			next.Status = probe.Warn
			next.Saw += "; whether Felix runs cannot be seen"
		}
	}
	p.Report(next.On("estimate").With(FactBudget, seconds))
}

// measured looks at the processes of calico-node's container.
func measured(h *probe.Host, budget time.Duration) probe.Result {
	if !seesProcesses(h) {
		return noProcesses
	}
	took, over, err := startUp(h)
	if err != nil {
		return unseen(err)
	}
	late, spent := probe.Warn, probe.Fail
	if over { // once, perhaps while the whole cluster started, and it came to answer
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
	return r.With(FactStartup, took.Seconds()).With(FactOver, over)
}

// startUp is how long start-up took from the container's first process to the one
// that watches over Felix, which lives on when Felix itself is started anew; or how
// long it has taken so far, when it is not over.
func startUp(h *probe.Host) (took time.Duration, over bool, err error) {
	proc, err := procfs.NewFS(h.Proc)
	if err != nil {
		return 0, false, fmt.Errorf("opening %s: %w", h.Proc, err)
	}
	if p, ok, err := calicoProcess(h, "felix"); err != nil {
		return 0, false, err
	} else if ok {
		// runsvdir, which was the start-up script, starts runsv, and that starts Felix.
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
		if p, ok, err := calicoProcess(h, phase); err == nil && ok {
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

// calicoProcess finds the process of calico-node that does one thing: calico-node
// -felix, or calico component felix.
func calicoProcess(h *probe.Host, what string) (stat procfs.ProcStat, found bool, _ error) {
	all, err := processesOf(h, inNodesNetwork, func(comm string) bool { return strings.HasPrefix(comm, "calico") })
	if err != nil {
		return procfs.ProcStat{}, false, err
	}
	for _, p := range all {
		if !slices.ContainsFunc(p.args[1:], func(a string) bool { return strings.TrimLeft(a, "-") == what }) {
			continue
		}
		if stat, err := p.Stat(); err == nil {
			return stat, true, nil
		}
	}
	return procfs.ProcStat{}, false, nil
}

func parent(proc procfs.FS, of procfs.ProcStat) (procfs.ProcStat, error) {
	p, err := proc.Proc(of.PPID)
	if err != nil {
		return procfs.ProcStat{}, fmt.Errorf("looking at process %d: %w", of.PPID, err)
	}
	stat, err := p.Stat()
	if err != nil {
		return procfs.ProcStat{}, fmt.Errorf("looking at process %d: %w", of.PPID, err)
	}
	return stat, nil
}

// firstOf is the first process of the container that a process is in: number 1
// there.
func firstOf(proc procfs.FS, of procfs.ProcStat) (procfs.ProcStat, error) {
	for of.PPID > 0 {
		p, err := proc.Proc(of.PID)
		if err != nil {
			return procfs.ProcStat{}, fmt.Errorf("looking at process %d: %w", of.PID, err)
		}
		status, err := p.NewStatus()
		if err != nil {
			return procfs.ProcStat{}, fmt.Errorf("looking at process %d: %w", of.PID, err)
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

// ticks is a time as the kernel counts it for programs, a hundredth of a second on
// every architecture.
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

// estimated measures the way to the datastore and reckons.
func estimated(ctx context.Context, p *probe.Pass, budget time.Duration) probe.Result {
	targets := p.Of(probe.KindDatastore)
	// then Calico does not keep its data elsewhere
	if slices.ContainsFunc(targets, func(t probe.Target) bool { return t.Name == nameEtcd }) {
		targets = slices.DeleteFunc(targets, func(t probe.Target) bool { return t.Name != nameEtcd })
	}
	if len(targets) == 0 {
		return gap(p, probe.KindDatastore, "no address of the datastore is known")
	}
	one, _, cancel := part(ctx, 4)
	defer cancel()
	answers := make(chan []trip, len(targets))
	each(targets, func(t probe.Target) {
		trips, _, _, _ := travels(one, p.Host, t)
		answers <- trips
	})
	close(answers)
	var far, shortest time.Duration
	for trips := range answers {
		if len(trips) == 0 {
			continue // for datastore-latency to say
		}
		for _, t := range trips {
			if shortest == 0 || t.connect < shortest {
				shortest = t.connect
			}
		}
		// The calls share connections: what counts is the answer, or the way there and
		// back where that is longer.
		near := median(trips, func(t trip) time.Duration { return max(t.answer, t.connect) })
		if far == 0 || near < far {
			far = near // at best
		}
	}
	if far == 0 {
		return probe.Found(probe.Skip,
			"the datastore does not answer (see datastore-latency), so a start cannot be estimated")
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
	r := probe.Found(status, "a start of calico-node takes about %v: %d calls of %v", takes.Round(time.Second),
		startupCalls, far.Round(100*time.Microsecond))
	if stretch >= 1.5 {
		r.Saw += fmt.Sprintf(", plus its own work, which the load makes %.1f times as long", stretch)
	}
	r.Saw += fmt.Sprintf("; calico-node's probe allows %v", budget)
	return r.With(FactStartup, takes.Seconds()).With(FactStretch, stretch).
		With(FactTrip, milliseconds(far)).With(FactFar, milliseconds(shortest)).With(FactCalls, startupCalls).
		With(FactWork, startupWork.Seconds()*stretch)
}

// slowness is by how much work lasts longer than on an idle node: the tasks that
// want each CPU. Where the kernel measures that nobody waits for one, the load is
// of another kind.
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

// cpuWaiting is the pressure on CPU, in percent of the time, below which a load is
// not one of the CPUs: with twice as many tasks as CPUs it is near 100.
const cpuWaiting = 50
