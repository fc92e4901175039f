package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// insidePods is how many pods a check is asked from: what one alone does not reach may be
// that pod's own trouble, or its owner's rules.
const insidePods = 2

// inside asks a check out of the network namespaces of workload pods on this node: the first
// two that can be entered, where there are two.
func (r *Runner) inside(ctx context.Context, c *Check, plan Plan, report func(Result)) {
	pods := apart((&Pass{Targets: plan.Targets}).Of(KindLocal))
	if gap := plan.Gaps[KindLocal]; gap != "" {
		report(Found(Unknown, "which pods run on this node is not known: %s", gap))
		return
	}
	why, status := "no ready workload pod with its own address is on this node to ask from", Skip
	if r.Enter == nil {
		pods, why = nil, "this probe cannot enter pods"
	}
	plan.Checks = []string{c.ID}
	// What only the node can answer is most of a big cluster's plan.
	plan.Targets = slices.DeleteFunc(slices.Clone(plan.Targets), func(t Target) bool {
		return slices.Contains([]string{KindBlock, KindSession, KindTunnel}, t.Kind)
	})
	said := pair{report: report}
	var mu sync.Mutex
	entered := 0
	var both Workers
	for range min(insidePods, len(pods)) {
		both.Go(func() {
			for {
				mu.Lock()
				if len(pods) == 0 {
					mu.Unlock()
					return
				}
				pod := pods[0]
				pods = pods[1:]
				mu.Unlock()
				err := r.from(ctx, pod, plan, said.add)
				mu.Lock()
				switch {
				case err == nil:
					entered++
				case !hidden(err):
					status, why = Unknown, fmt.Sprintf("not asked from inside a pod: %v", err)
				case status == Skip: // else another pod made it unknown, and why says how
					why = fmt.Sprintf("not asked from inside a pod: %v", err)
				}
				mu.Unlock()
				if err == nil {
					return
				}
			}
		})
	}
	defer context.AfterFunc(ctx, said.settle)() // one pod that hangs does not hold up what the other one saw
	both.Wait()
	said.settle()
	if entered == 0 {
		report(Result{Status: status, Saw: why})
	}
}

// hidden tells whether a pod cannot be seen or entered by the way that was taken, so that it
// was not asked.
func hidden(err error) bool {
	return errors.Is(err, ErrNotVisible) || errors.Is(err, errors.ErrUnsupported)
}

// from asks out of one pod.
func (r *Runner) from(ctx context.Context, pod Target, plan Plan, report func(Result)) error {
	plan.From = pod.Name
	if at, ok := ctx.Deadline(); ok { // what is inside says itself that it timed out, its own grace included
		plan.Limit = max(time.Until(at)-2*grace, time.Until(at)/2)
	}
	return r.Enter(ctx, pod, Request{Type: RequestPlan, Plan: &plan}, func(ev Event) {
		if ev.Result != nil {
			r := ev.Result.Under(pod, DeniesEgress)
			r.From = pod.Name
			report(r)
		}
	})
}

// apart are the pods, each once, and the second of another IP pool than the first, or else of another namespace, where
// there is one: two of one pool show nothing of another, and two of one owner are hardly two witnesses.
func apart(targets []Target) []Target {
	var pods []Target
	for _, t := range targets { // one for each address
		if !slices.ContainsFunc(pods, func(p Target) bool { return p.Name == t.Name }) {
			pods = append(pods, t)
		}
	}
	namespace := func(t Target) string { n, _, _ := strings.Cut(t.Name, "/"); return n }
	i := slices.IndexFunc(pods, func(t Target) bool {
		return t.Attrs[AttrPool] != "" && t.Attrs[AttrPool] != pods[0].Attrs[AttrPool] && t.Addr.Is6() == pods[0].Addr.Is6()
	})
	if i < 0 {
		i = slices.IndexFunc(pods, func(t Target) bool { return namespace(t) != namespace(pods[0]) })
	}
	if i > 1 {
		pods = slices.Insert(slices.Delete(slices.Clone(pods), i, i+1), 1, pods[i])
	}
	return pods
}

// pair is what two pods say. A fail waits for the other one: what that reaches is not broken
// for all pods, and the fail is a warning.
type pair struct {
	mu      sync.Mutex
	report  func(Result)
	settled bool
	fine    map[string]string // the pod from which a target is
	failed  []Result
}

func (p *pair) add(r Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.Status == Fail && !p.settled:
		p.failed = append(p.failed, r)
		return
	case r.Status == OK:
		if p.fine == nil {
			p.fine = map[string]string{}
		}
		p.fine[r.Target] = r.From
	}
	p.report(r)
}

// settle reports what has waited.
func (p *pair) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settled = true
	for _, r := range p.failed {
		if other := p.fine[r.Target]; other != "" && other != r.From {
			r.Status = Warn
			r.Saw += "; from " + other + " it is ok"
		}
		p.report(r)
	}
	p.failed = nil
}
