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

// insidePods is the number of pods in which a check runs. If only one of the pods fails, the cause may be that pod, or
// a rule that its owner set.
const insidePods = 2

// inside runs a check in the network namespaces of workload pods on this node. It uses the first two that it can enter.
func (r *Runner) inside(ctx context.Context, c *Check, plan Plan, report func(Result)) {
	pods := apart((&Pass{Targets: plan.Targets}).Of(KindLocal))
	if gap := plan.Gaps[KindLocal]; gap != "" {
		report(Found(Unknown, "the pods on this node are unknown: %s", gap))
		return
	}
	why, status := "no ready workload pod with its own address on this node", Skip
	if r.Enter == nil {
		pods, why = nil, "this probe cannot enter pods"
	}
	plan.Checks = []string{c.ID}
	// In a large cluster, most targets of a plan concern only the node.
	plan.Targets = slices.DeleteFunc(slices.Clone(plan.Targets), func(t Target) bool {
		return slices.Contains([]string{KindBlock, KindSession, KindTunnel}, t.Kind)
	})
	joined := pair{report: report}
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
				err := r.from(ctx, pod, plan, joined.add)
				mu.Lock()
				switch {
				case err == nil:
					entered++
				case !hidden(err):
					status, why = Unknown, fmt.Sprintf("not run inside a pod: %v", err)
				case status == Skip: // otherwise another pod made the result unknown and reports why
					why = fmt.Sprintf("not run inside a pod: %v", err)
				}
				mu.Unlock()
				if err == nil {
					return
				}
			}
		})
	}
	defer context.AfterFunc(ctx, joined.settle)() // a pod that hangs does not delay the other pod's results
	both.Wait()
	joined.settle()
	if entered == 0 {
		report(Result{Status: status, Saw: why})
	}
}

// hidden reports whether the check did not run in a pod because the access method cannot show or enter that pod.
func hidden(err error) bool {
	return errors.Is(err, ErrNotVisible) || errors.Is(err, errors.ErrUnsupported)
}

// from runs a check in one pod's network namespace.
func (r *Runner) from(ctx context.Context, pod Target, plan Plan, report func(Result)) error {
	plan.From = pod.Name
	if at, ok := ctx.Deadline(); ok { // the inner probe reports its own timeout, including the grace period
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

// apart returns each pod once. If possible, the second pod uses another IP pool than the first. Otherwise, it is in
// another namespace. Two pods from one pool show nothing about other pools, and two pods with one owner may share a
// misconfiguration.
func apart(targets []Target) []Target {
	var pods []Target
	for _, t := range targets { // there is one target for each address
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

// pair combines the results of two pods. A fail waits for the result from the other pod. If the other pod reaches the
// target, the path is not broken for all pods. The fail then becomes a warning.
type pair struct {
	mu      sync.Mutex
	report  func(Result)
	settled bool
	fine    map[string]string // the pod that reaches a target
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

// settle reports the results that are still waiting.
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
