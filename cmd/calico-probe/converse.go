package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/probe"
)

// converse sends the plan, passes the answer on until its end, and removes what
// was created, however it went. said is what the ways before came to, which is worth
// knowing and no more once this one works. Where nothing at all is heard from the
// probe and other ways are left, that is returned instead of being said.
func (o *runOptions) converse(ctx context.Context, way string, session *injector.Session, snap *cluster.Snapshot, took time.Duration, said []probe.Event, last bool) (lost *probe.Event, err error) {
	defer func() {
		if closeErr := session.Close(); closeErr != nil {
			o.note("%s: cleaning up: %v", way, closeErr)
		}
	}()
	arrived := func() error { return o.arrived(way, session, took, said) }
	ended, lost, err := o.pass(ctx, way, session, o.plan(way, snap), arrived)
	if lost != nil && (last || ctx.Err() != nil) {
		if err := arrived(); err != nil {
			return nil, err
		}
		return nil, o.emit(way, *lost)
	}
	if err != nil || lost != nil || !ended || !o.proves(snap) {
		return lost, err
	}
	return nil, o.prove(ctx, session, snap)
}

// plan is what the probe on the node is to answer.
func (o *runOptions) plan(way string, snap *cluster.Snapshot) probe.Plan {
	plan := probe.Plan{Run: o.id, Node: o.node, Way: way, Checks: o.nodeChecks(), Limit: o.checkTimeout}
	if snap != nil {
		plan.Targets, plan.Gaps = cluster.Targets(snap)
		plan.Now = snap.Now.Add(time.Since(snap.Read))
	}
	return plan
}

// arrived says which way worked, and what those before it came to.
func (o *runOptions) arrived(way string, session *injector.Session, took time.Duration, said []probe.Event) error {
	for _, ev := range said {
		if ev.Result.Status == probe.Unknown {
			ev.Result.Status = probe.Info
		}
		if err := o.emit(ev.Way, ev); err != nil {
			return err
		}
	}
	placed := probe.Found(probe.OK, "probe running after %s: %s", took.Round(10*time.Millisecond), strings.Join(session.Created(), ", "))
	placed.Check, placed.Target, placed.Elapsed = probe.CheckPlaced, way, took
	if id := session.ImageID(); id != "" {
		placed = placed.With(probe.FactImageID, id)
		if o.image != probeImage() && o.image != toolboxImage() && !strings.Contains(o.image, "@") {
			o.note("%s: image %s is %s on %s", way, o.image, id, o.node)
		}
	}
	return o.emit(way, probe.Event{Type: probe.EventResult, Result: &placed})
}

// pass passes on what a probe answers to a plan; false when that was not all of it,
// which then has been said, or is lost where not even a first event came. arrived is
// called at that one. The error is one of writing the report.
func (o *runOptions) pass(ctx context.Context, way string, session *injector.Session, plan probe.Plan, arrived func() error) (ended bool, lost *probe.Event, err error) {
	open := slices.Clone(plan.Checks)
	var writing error
	heard := false
	err = answer(ctx, session, probe.Request{Type: probe.RequestPlan, Plan: &plan}, func(ev probe.Event) bool {
		if !heard {
			heard, writing = true, arrived()
		}
		if ev.Result != nil {
			open = slices.DeleteFunc(open, func(id string) bool { return id == ev.Result.Check })
		}
		if writing == nil {
			writing = o.emit(way, ev)
		}
		return writing == nil
	})
	switch {
	case writing != nil:
		return false, nil, writing
	case err != nil && heard && len(open) > 0:
		err = fmt.Errorf("%w; without an answer: %s", err, strings.Join(open, ", "))
	}
	if err != nil {
		ev := unanswered(err)
		if !heard {
			ev.Way = way
			return false, &ev, nil
		}
		return false, nil, o.emit(way, ev)
	}
	return true, nil, nil
}

// answer sends a plan or a call and gives every event up to its end to each, which
// returns false to stop.
func answer(ctx context.Context, session *injector.Session, request probe.Request, each func(probe.Event) bool) error {
	if _, err := session.Send(ctx, request); err != nil {
		return err
	}
	for {
		ev, err := session.Next(ctx)
		if err != nil {
			return err
		}
		if !each(ev) || ev.Type == probe.EventEnd {
			return nil
		}
	}
}

// unplaced is the result of a way that came to nothing; namespace is that of the pod
// it was to make, if any.
func unplaced(way, namespace string, err error) probe.Event {
	r := probe.Result{Check: probe.CheckPlaced, Target: way, Status: probe.Unknown, Saw: explainError(err)}
	if namespace != "" {
		r = r.With(probe.FactNamespace, namespace)
	}
	if pe, ok := errors.AsType[*injector.PlacementError](err); ok {
		r = r.With(probe.FactReason, string(pe.Reason))
	}
	return probe.Event{Type: probe.EventResult, Result: &r, Way: way}
}

func unanswered(err error) probe.Event {
	r := probe.Result{Check: probe.CheckAnswered, Status: probe.Unknown, Saw: explainError(err)}
	if pe, ok := errors.AsType[*injector.PlacementError](err); ok {
		r = r.With(probe.FactReason, string(pe.Reason))
	}
	if errors.Is(err, probe.ErrTooMuch) {
		r = r.With(probe.FactReason, probe.ReasonTooMuch)
	}
	return probe.Event{Type: probe.EventResult, Result: &r}
}

// notOnto says which ways were tried in vain.
func (o *runOptions) notOnto(said []probe.Event) error {
	last := len(said) - 1
	for last > 0 && said[last].Result.Status == probe.Skip {
		last--
	}
	unasked := "the one check on the node was not asked: 'calico-probe run --via local' on the node itself asks it"
	if n := len(o.nodeChecks()); n != 1 {
		unasked = fmt.Sprintf("the %d checks on the node were not asked: 'calico-probe run --via local' on the node itself asks them", n)
	}
	for i, ev := range said {
		if i == last {
			ev.Result.Saw += "; " + unasked
		}
		if err := o.emit(ev.Way, ev); err != nil {
			return err
		}
	}
	return nil
}
