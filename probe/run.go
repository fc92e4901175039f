package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// grace is the extra time in which a check may still report after its deadline. It is long enough to report "timed
// out" with partial data, and too short to matter.
const grace = 250 * time.Millisecond

// Runner answers plans with a suite of checks.
type Runner struct {
	Suite   []*Check
	Host    *Host
	Version string
	Access  []string // the access that this probe has, for the start event
	Tools   []*Tool  // tools that a user may run
	// Enter answers a plan or a call inside the network namespace of a workload pod on this node, a KindLocal target.
	// nil means that this probe cannot enter pods.
	Enter func(ctx context.Context, pod Target, request Request, emit func(Event)) error
}

// Run answers one plan. It writes a start event, results as soon as they are known, and an end event. Checks run
// concurrently. A check that panics, exceeds its deadline or blocks in the kernel costs only one unknown result. If a
// requested check is not in the suite, its result is unknown, with that reason. So probes and clients of different
// versions can work together, and every requested check has a result.
func (r *Runner) Run(ctx context.Context, plan Plan, emit func(Event)) {
	began := time.Now()
	r.Host.learn(plan.Targets)
	start := Start{
		V: Version, Version: r.Version, Run: plan.Run, Node: plan.Node, Method: plan.Method,
		Time: began.UTC(), Checks: plan.Checks, Access: r.Access,
	}
	if len(plan.Checks) == 0 { // the client wants only the start event
		start.Tools = r.toolNames()
	}
	emit(Event{Type: EventStart, Start: &start})
	b := &collector{emit: emit, counts: Counts{}, states: map[string]*checkState{}}
	var todo []*checkState
	for _, id := range plan.Checks {
		i := slices.IndexFunc(r.Suite, func(c *Check) bool { return c.ID == id })
		if i < 0 {
			b.add(Result{Check: id, Status: Unknown,
				Saw: fmt.Sprintf("this probe (%s) has no such check", r.Version)})
			continue
		}
		if b.states[id] == nil {
			b.states[id] = &checkState{check: r.Suite[i], done: make(chan struct{})}
			todo = append(todo, b.states[id])
		}
	}
	var all Workers
	for _, s := range todo {
		all.Go(func() {
			defer close(s.done)
			r.one(ctx, s.check, plan, b)
		})
	}
	all.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	emit(Event{Type: EventEnd,
		End: &End{Results: b.counts.Total(), Counts: b.counts, Elapsed: time.Since(began), Stopped: stopped(ctx)}})
}

// collector holds the answers to one plan so far.
type collector struct {
	mu     sync.Mutex
	emit   func(Event)
	counts Counts
	states map[string]*checkState // the checks of the plan, by ID
}

// checkState is the progress of one check of a plan.
type checkState struct {
	check  *Check
	usable bool          // other checks may use its answer
	done   chan struct{} // closed when the check ends
}

func (b *collector) add(res Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(Statuses(), res.Status) {
		res.Status = Unknown
	}
	if s := b.states[res.Check]; s != nil && (res.Status == OK || res.Status == Info || res.Status == Warn) {
		s.usable = true
	}
	b.counts[res.Status]++
	b.emit(Event{Type: EventResult, Result: &res})
}

// stopped reports whether the client cancelled the request.
func stopped(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrStopped) }

// missing waits until the checks that c needs have ended. It returns the ID of the first of these checks that has
// no usable answer, or "". If a needed check runs only inside pods, it matters only there.
func (b *collector) missing(ctx context.Context, c *Check, inside bool) string {
	for _, id := range c.Needs {
		need := b.states[id]
		if need == nil || need.check.From == FromPod && !inside {
			continue // the user excluded it, so c runs without it
		}
		select {
		case <-need.done:
		case <-ctx.Done():
			return id
		}
		b.mu.Lock()
		ok := need.usable
		b.mu.Unlock()
		if !ok {
			return id
		}
	}
	return ""
}

// without returns the result of a check if a check that it needs has no usable answer.
func without(ctx context.Context, need, what string) Result {
	if ctx.Err() != nil {
		return Found(Unknown, "%s: no time was left to wait for %s", what, need)
	}
	return Found(Skip, "%s: %s did not pass", what, need)
}

func (r *Runner) one(ctx context.Context, c *Check, plan Plan, all *collector) {
	if id := all.missing(ctx, c, c.From == FromPod); id != "" {
		r := without(ctx, id, "not run")
		r.Check = c.ID
		all.add(r)
		return
	}
	limit := c.Deadline()
	if plan.Limit > 0 {
		limit = plan.Limit
	}
	out := &reporter{check: c, from: plan.From, all: all, began: time.Now(),
		stopped: func() bool { return stopped(ctx) }}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ended := Async(func() error { r.askBoth(ctx, c, plan, all, out.report); return nil })
	crashed := func(crash error) {
		if crash != nil {
			out.report(Found(Unknown, "the check %v", crash))
		}
	}
	select {
	case crash := <-ended:
		crashed(crash)
	case <-ctx.Done():
		select {
		case crash := <-ended:
			crashed(crash)
		case <-time.After(grace):
			blocked := Found(Unknown, "no answer within %v; still blocked", limit)
			out.report(blocked.With(FactReason, "blocked"))
		}
	}
	out.close()
}

// askBoth runs a check on the node. If the check enters pods, it also runs the check inside pods.
func (r *Runner) askBoth(ctx context.Context, c *Check, plan Plan, all *collector, report func(Result)) {
	var both Workers
	if c.EntersPods() && plan.From == "" {
		both.Go(func() {
			if id := all.missing(ctx, c, true); id != "" {
				report(without(ctx, id, "not run inside a pod"))
				return
			}
			r.inside(ctx, c, plan, report)
		})
	}
	defer both.Wait()
	if c.From != FromPod || plan.From != "" {
		c.Run(ctx, &Pass{
			Host: r.Host, Targets: plan.Targets, Gaps: plan.Gaps, Now: plan.Now, From: plan.From, Brief: plan.Brief,
			Report: report,
		})
	}
}

// reporter accepts the results of one check until it is closed. It drops results that a check reports after its
// deadline.
type reporter struct {
	check   *Check
	from    string // the pod in which the check runs, "" = the node
	all     *collector
	began   time.Time
	stopped func() bool

	mu       sync.Mutex
	closed   bool
	reported int
}

func (o *reporter) report(res Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	if o.reported++; o.stopped() { // after a stop, a result may be an effect of the stop
		o.closed, res = true, Found(Unknown, "stopped before it was answered")
	}
	res.Check, res.Elapsed = o.check.ID, time.Since(o.began)
	if o.from != "" {
		res.From = o.from
	}
	o.all.add(res)
}

// close stops accepting results. It adds a result if the check did not report one.
func (o *reporter) close() {
	o.mu.Lock()
	silent := o.reported == 0
	o.mu.Unlock()
	if silent {
		o.report(Result{Status: Unknown, Saw: "the check ended without an answer"})
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}
