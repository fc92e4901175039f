package examine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/trace"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// talk sends the plan to a probe that runs, reports its answer up to the end, and removes
// what was created, however it went. Where nothing at all is heard from the probe and other
// access methods are left, that is its error, an *injector.UnheardError, instead of being reported.
func (r *Run) talk(ctx context.Context, p injector.Placed, snap *cluster.Snapshot) error {
	asking, end := trace.Span(ctx, "the probe answers")
	defer func() {
		end()
		_, end := trace.Span(ctx, "clean up")
		defer end()
		r.closing(p.Method, p.Session)
	}()
	report := func() error { return r.ReportPlaced(p, snap) }
	whole, err := r.Converse(asking, p.Method, snap, p.Session.Ask, report)
	if unheard, is := errors.AsType[*injector.UnheardError](err); is && (p.Last || ctx.Err() != nil) {
		if err := r.ReportPlaced(p, snap); err != nil {
			return err
		}
		return r.Add(p.Method, Unanswered(unheard.Err))
	}
	if !whole || !r.ProvesEncap(snap) {
		return err
	}
	return r.ProveEncap(ctx, p.Session, snap)
}

// Asking sends a request to a probe and shows each event of the answer, until one returns false.
type Asking func(context.Context, probe.Request, func(probe.Event) bool) error

// Converse asks a probe by ask what the run wants to know, and then what that calls for, and
// reports the answers after begin. whole is false where that was not all of it, which then has been
// reported. The error is an *injector.UnheardError where nothing came but what the probe says of itself,
// else one of writing the report.
func (r *Run) Converse(
	ctx context.Context, method string, snap *cluster.Snapshot, ask Asking, begin func() error,
) (whole bool, err error) {
	whole, err = r.answers(ctx, method, r.Plan(method, snap), ask, begin)
	for whole {
		if err := r.reportView(); err != nil {
			return false, err
		}
		next := r.followUp(method, snap)
		if next == nil {
			break
		}
		whole, err = r.answers(ctx, method, *next, ask, func() error { return nil })
		if unheard, is := errors.AsType[*injector.UnheardError](err); is {
			return false, r.Add(method, unfollowed(next.Checks, unheard.Err))
		}
	}
	return whole, err
}

// unfollowed is the result of a probe that has answered its plan and can then not be asked the checks that
// its answers call for, as when the kubelet restarts in between: a one-shot probe ends with its connection.
// It carries no reason, since a connection that worked until then proves nothing about the access method.
func unfollowed(ids []string, err error) probe.Event {
	return Unanswered(fmt.Errorf("the probe answered its plan, and then its connection was cut: without an answer: %s (%v)",
		strings.Join(ids, ", "), err))
}

// closing ends a session; what could not be removed is said under a name.
func (r *Run) closing(name string, session *injector.Session) {
	if err := session.Close(); err != nil {
		r.client.Note("%s: cleaning up: %v", name, err)
	}
}

// Plan is what the probe on the node is to answer.
func (r *Run) Plan(method string, snap *cluster.Snapshot) probe.Plan {
	plan := probe.Plan{Run: r.ID, Node: r.Node, Way: method, Checks: r.NodeChecks(),
		Brief: r.opts.Profile == string(probe.Quick), Limit: r.opts.CheckTimeout}
	if snap != nil {
		plan.Targets, plan.Gaps = cluster.Targets(snap)
		plan.Now = snap.Now.Add(time.Since(snap.Read))
	}
	return plan
}

// ReportPlaced reports which access method worked, and what became of those before it. That is no more than worth
// knowing now, but where the node itself started no pod: other pods do not start there either.
func (r *Run) ReportPlaced(p injector.Placed, snap *cluster.Snapshot) error {
	for _, f := range p.Failed {
		ev := r.eventOf(f, r.client.PodNamespace(snap))
		switch {
		case ev.Result.Status != probe.Unknown:
		case startsNothing(f.Err):
			ev.Result.Status = probe.Warn
		default:
			ev.Result.Status = probe.Info
		}
		if err := r.Add(f.Method, ev); err != nil {
			return err
		}
	}
	what := "probe running"
	if p.Method == injector.MethodKubelet {
		what = "the kubelet answers"
	}
	placed := probe.Found(probe.OK, "%s after %s: %s", what, p.Took.Round(10*time.Millisecond),
		strings.Join(p.Session.Created(), ", "))
	placed.Check, placed.Target, placed.Elapsed = probe.CheckPlaced, p.Method, p.Took
	if id := p.Session.ImageID(); id != "" {
		placed = placed.With(probe.FactImageID, id)
		if image := r.opts.Image; !r.client.Ours(image) && !strings.Contains(image, "@") {
			r.client.Note("%s: image %s is %s on %s", p.Method, image, id, r.Node)
		}
	}
	return r.Add(p.Method, probe.Event{Type: probe.EventResult, Result: &placed})
}

// startsNothing tells whether an access method failed because the node's kubelet or container runtime started no pod.
func startsNothing(err error) bool {
	pe, ok := errors.AsType[*injector.PlacementError](err)
	return ok && (pe.Reason == facts.ReasonRuntime || pe.Reason == facts.ReasonKubelet)
}

// answers is Converse for one plan.
func (r *Run) answers(
	ctx context.Context, method string, plan probe.Plan, ask Asking, begin func() error,
) (whole bool, err error) {
	open := slices.Clone(plan.Checks)
	var writing error
	var own []probe.Event // what the probe says of itself before it answers anything
	heard := false
	err = ask(ctx, probe.Request{Type: probe.RequestPlan, Plan: &plan}, func(ev probe.Event) bool {
		if ev.Start != nil {
			start := *ev.Start
			start.FollowUp = len(r.followed) > 0
			ev.Start = &start
		}
		if !heard && (ev.Start != nil || ev.Type == probe.EventLog) {
			own = append(own, ev)
			return true
		}
		if !heard {
			heard, writing = true, begin()
			for _, before := range own {
				if writing == nil {
					writing = r.Add(method, before)
				}
			}
		}
		if ev.Result != nil {
			open = slices.DeleteFunc(open, func(id string) bool { return id == ev.Result.Check })
		}
		if writing == nil {
			writing = r.Add(method, ev)
		}
		return writing == nil
	})
	switch {
	case writing != nil:
		return false, writing
	case err == nil:
		return true, nil
	case !heard:
		return false, &injector.UnheardError{Err: onlyOfItself(ctx, own, err)}
	case len(open) > 0:
		err = fmt.Errorf("%w; without an answer: %s", err, strings.Join(open, ", "))
	}
	return false, r.Add(method, Unanswered(err))
}

// onlyOfItself is the error of a probe that was heard by its log, if at all, and of which no answer came: it was not
// reached, or what it said has not come back. Where that is known by another reason, the error stays what it is.
func onlyOfItself(ctx context.Context, own []probe.Event, err error) error {
	if _, known := errors.AsType[*injector.PlacementError](err); known || len(own) == 0 || ctx.Err() != nil {
		return err
	}
	text := fmt.Sprintf("the probe runs, and nothing of what it was asked came back: %v", err)
	if last := own[len(own)-1].Text; last != "" {
		text += "; its last words: " + probe.Quoted(last)
	}
	return &injector.PlacementError{Reason: facts.ReasonSilent, Err: err, Text: text}
}
