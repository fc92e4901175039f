package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// grace is how long a check may still report after its deadline: enough to say
// "timed out" with what it knows, too short to matter.
const grace = 250 * time.Millisecond

// Runner answers plans from a suite of checks.
type Runner struct {
	Suite   []*Check
	Host    *Host
	Version string
	Access  []string // what this probe holds, for the start event
	Tools   []*Tool  // what a user may ask for by hand
	// Enter answers a plan or a call inside the network namespace of a workload pod on
	// this node, a KindLocal target. nil = this probe cannot.
	Enter func(ctx context.Context, pod Target, request Request, emit func(Event)) error
}

// Run answers one plan: a start event, results as they become known, an end
// event. Checks run side by side; one that panics, overruns its deadline or
// blocks in the kernel costs one unknown result and nothing else. A check the
// suite does not have is unknown with that reason, so probes and clients of
// different versions work together and nothing passes for answered.
func (r *Runner) Run(ctx context.Context, plan Plan, emit func(Event)) {
	began := time.Now()
	start := Start{
		V: Version, Version: r.Version, Run: plan.Run, Node: plan.Node, Way: plan.Way,
		Time: began.UTC(), Checks: plan.Checks, Access: r.Access,
	}
	if len(plan.Checks) == 0 { // the client is only asking who is there
		start.Tools = r.toolNames()
	}
	emit(Event{Type: EventStart, Start: &start})
	b := &book{emit: emit, counts: Counts{}, done: map[*Check]chan struct{}{}, usable: map[*Check]bool{}}
	var todo []*Check
	for _, id := range plan.Checks {
		i := slices.IndexFunc(r.Suite, func(c *Check) bool { return c.ID == id })
		if i < 0 {
			b.add(nil, Result{Check: id, Status: Unknown, Saw: fmt.Sprintf("this probe (%s) has no such check", r.Version)})
			continue
		}
		if c := r.Suite[i]; b.done[c] == nil {
			todo = append(todo, c)
			b.done[c] = make(chan struct{})
		}
	}
	var all sync.WaitGroup
	for _, c := range todo {
		all.Go(func() {
			defer close(b.done[c])
			r.one(ctx, c, plan, b)
		})
	}
	all.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	emit(Event{Type: EventEnd, End: &End{Results: b.counts.Total(), Counts: b.counts, Elapsed: time.Since(began), Stopped: stopped(ctx)}})
}

// book collects what has been answered so far in one plan.
type book struct {
	mu     sync.Mutex
	emit   func(Event)
	counts Counts
	usable map[*Check]bool          // has an answer other checks may build on
	done   map[*Check]chan struct{} // closed when the check has ended
}

func (b *book) add(c *Check, res Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(Statuses(), res.Status) {
		res.Status = Unknown
	}
	if res.Status == OK || res.Status == Info || res.Status == Warn {
		b.usable[c] = true
	}
	b.counts[res.Status]++
	b.emit(Event{Type: EventResult, Result: &res})
}

// stopped tells whether the client did not want the answer any more.
func stopped(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrStopped) }

// missing waits for what c needs and names the first need without an answer
// that c could build on. What is asked only inside pods is needed only there.
func (b *book) missing(ctx context.Context, c *Check, inside bool) *Check {
	for _, n := range c.Needs {
		done, asked := b.done[n]
		if !asked || n.From == FromPod && !inside {
			continue // the user left it out: then c stands on its own
		}
		select {
		case <-done:
		case <-ctx.Done():
			return n
		}
		b.mu.Lock()
		ok := b.usable[n]
		b.mu.Unlock()
		if !ok {
			return n
		}
	}
	return nil
}

// without is the result of a check whose need is not met.
func without(ctx context.Context, need *Check, what string) Result {
	if ctx.Err() != nil {
		return Found(Unknown, "%s: no time was left to wait for %s", what, need.ID)
	}
	return Found(Skip, "%s: %s gave no good answer", what, need.ID)
}

func (r *Runner) one(ctx context.Context, c *Check, plan Plan, b *book) {
	if n := b.missing(ctx, c, c.From == FromPod); n != nil {
		r := without(ctx, n, "not asked")
		r.Check = c.ID
		b.add(c, r)
		return
	}
	limit := c.Deadline()
	if plan.Limit > 0 {
		limit = plan.Limit
	}
	began := time.Now()
	var mu sync.Mutex
	open, reported := true, 0
	report := func(res Result) {
		mu.Lock()
		defer mu.Unlock()
		if !open {
			return
		}
		if reported++; stopped(ctx) { // what is said now may only be because of that
			open, res = false, Found(Unknown, "stopped before it was answered")
		}
		res.Check, res.Elapsed = c.ID, time.Since(began)
		if plan.From != "" {
			res.From = plan.From
		}
		b.add(c, res)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if p := recover(); p != nil {
				report(Result{Status: Unknown, Saw: fmt.Sprintf("the check crashed: %v", p)})
			}
		}()
		pass := &Pass{Host: r.Host, Targets: plan.Targets, Gaps: plan.Gaps, Now: plan.Now, From: plan.From, Report: report}
		var both sync.WaitGroup
		if c.EntersPods() && plan.From == "" {
			both.Go(func() {
				if n := b.missing(ctx, c, true); n != nil {
					report(without(ctx, n, "not asked from inside a pod"))
					return
				}
				r.inside(ctx, c, plan, report)
			})
		}
		defer both.Wait()
		if c.From != FromPod || plan.From != "" {
			c.Run(ctx, pass)
		}
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		select {
		case <-ended:
		case <-time.After(grace):
			report(Result{Status: Unknown, Saw: fmt.Sprintf("no answer within %v; still blocked", limit)}.With(FactReason, "blocked"))
		}
	}
	mu.Lock()
	silent := reported == 0
	mu.Unlock()
	if silent {
		report(Result{Status: Unknown, Saw: "the check ended without an answer"})
	}
	mu.Lock()
	open = false
	mu.Unlock()
}
