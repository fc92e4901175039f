package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
)

// The ways onto a node, in the order auto tries them. The API is no way onto
// the node: it is always asked first.
const (
	wayAPI       = "api"
	wayPod       = "pod"
	wayEphemeral = "ephemeral"
	wayLocal     = "local"

	wayPair = "pair" // no way of its own: two probes that talk to each other
)

func wayNames() []string { return []string{wayAPI, wayPod, wayEphemeral, wayLocal, wayNeighbour} }

// IDs of the results the client itself adds.
const (
	checkPlaced   = "probe-placed"
	checkAnswered = "probe-answered"
)

// askNode gets a probe onto the node by the first way that works and passes its
// answer on. No way is a result too. The error is one of writing the report.
func (o *runOptions) askNode(ctx context.Context, snap *cluster.Snapshot) error {
	ladder, err := o.ladder()
	if err != nil {
		return err
	}
	var failed []probe.Event
	for i, step := range ladder {
		began := time.Now()
		opts := o.placement(step.name, snap, len(failed) > 0)
		o.progress("%s: putting a probe on %s", step.name, o.node)
		session, err := step.open(ctx, opts)
		if err != nil {
			if i+1 < len(ladder) { // the last one's failure is shown as a result right away
				o.progress("%s: %v", step.name, err)
			}
			failed = append(failed, unplaced(step.name, err))
			if ctx.Err() != nil || sameEverywhere(err) {
				break
			}
			continue
		}
		for _, ev := range failed { // another way worked: worth knowing, no more
			ev.Result.Status = probe.Info
			if err := o.emit(ev.Way, ev); err != nil {
				return errors.Join(err, session.Close())
			}
		}
		return o.converse(ctx, step.name, session, snap, time.Since(began))
	}
	for i, ev := range failed {
		if i+1 == len(failed) {
			ev.Result.Saw += fmt.Sprintf("; the %d checks on the node were not asked", len(o.nodeChecks()))
		}
		if err := o.emit(ev.Way, ev); err != nil {
			return err
		}
	}
	return nil
}

// sameEverywhere tells whether the next way on the same node would meet the same
// obstacle: an image that one container cannot have, the other cannot either, and
// an ephemeral container that waits for it cannot be removed.
func sameEverywhere(err error) bool {
	pe, ok := errors.AsType[*injector.PlacementError](err)
	return ok && pe.Reason == injector.ReasonImage
}

// step is one rung of the ladder.
type step struct {
	name string
	open injector.Way
}

func (o *runOptions) ladder() ([]step, error) {
	if o.via == wayLocal {
		runner := &probe.Runner{Suite: checks.All(), Host: &probe.Host{Node: o.node, Root: "/", Proc: "/proc"}, Version: probe.Release}
		return []step{{wayLocal, injector.Local(runner)}}, nil
	}
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	client, err := injector.NewClient(config)
	if err != nil {
		return nil, err
	}
	all := []step{{wayPod, injector.Pod(client)}, {wayEphemeral, injector.Ephemeral(client)}}
	for _, s := range all {
		if s.name == o.via {
			return []step{s}, nil
		}
	}
	return all, nil
}

// How long to wait for a probe to start unless the user says. A healthy node
// takes a second; one whose kubelet has not been heard of for 40 s will hardly
// start anything, and somebody is waiting.
const (
	startUsual  = 40 * time.Second
	startSilent = 10 * time.Second
)

func (o *runOptions) placement(way string, snap *cluster.Snapshot, second bool) injector.Options {
	var calico *corev1.Pod
	var calicoErr error
	start := o.startTimeout
	if snap != nil {
		calico, calicoErr = snap.Calico, snap.CalicoErr
		if start == 0 && cluster.KubeletSilent(snap) {
			start = startSilent
		}
	}
	switch {
	case start == 0 && second: // the same kubelet and runtime have just been waited for
		start = startSilent
	case start == 0:
		start = startUsual
	}
	return injector.Options{
		Calico: calico, CalicoErr: calicoErr,
		Node: o.node, Namespace: o.namespace(snap), Image: o.image, PullSecret: o.pullSecret, Run: o.id,
		Who: whoami(), Reason: o.reason, Checks: o.nodeChecks(), Needed: probe.Capabilities(o.picked), Privileged: o.privileged, Start: start, Whole: o.timeout,
		Progress: func(text string) { o.progress("%s: %s", way, text) },
		Note:     func(text string) { o.note("%s: %s", way, text) },
	}
}

// namespace is where the probe pod goes: where the user says, else beside
// calico-node, whose namespace must admit privileged pods.
func (o *runOptions) namespace(snap *cluster.Snapshot) string {
	if n := o.flags.Namespace; n != nil && *n != "" {
		return *n
	}
	if snap != nil && snap.Calico != nil {
		return snap.Calico.Namespace
	}
	return "kube-system"
}

// converse sends the plan, passes the answer on until its end, and removes what
// was created, however it went.
func (o *runOptions) converse(ctx context.Context, way string, session *injector.Session, snap *cluster.Snapshot, took time.Duration) (err error) {
	defer func() {
		if closeErr := session.Close(); closeErr != nil {
			o.note("%s: cleaning up: %v; remove what is left with 'calico-probe clean --all'", way, closeErr)
		}
	}()
	placed := probe.Found(probe.OK, "probe running after %s: %s", took.Round(10*time.Millisecond), strings.Join(session.Created(), ", "))
	placed.Check, placed.Elapsed = checkPlaced, took
	if err := o.emit(way, probe.Event{Type: probe.EventResult, Result: &placed}); err != nil {
		return err
	}
	plan := probe.Plan{Run: o.id, Node: o.node, Way: way, Checks: o.nodeChecks(), Limit: o.checkTimeout}
	if snap != nil {
		plan.Targets, plan.Gaps = cluster.Targets(snap)
		plan.Now = snap.Now.Add(time.Since(snap.Read))
	}
	if ended, err := o.pass(ctx, way, session, plan); err != nil || !ended || !o.proves(snap) {
		return err
	}
	return o.prove(ctx, session, snap)
}

// pass passes on what a probe answers to a plan; false when that was not all of it,
// which then has been said. The error is one of writing the report.
func (o *runOptions) pass(ctx context.Context, way string, session *injector.Session, plan probe.Plan) (bool, error) {
	open := slices.Clone(plan.Checks)
	var writing error
	err := answer(ctx, session, plan, func(ev probe.Event) bool {
		if ev.Result != nil {
			open = slices.DeleteFunc(open, func(id string) bool { return id == ev.Result.Check })
		}
		writing = o.emit(way, ev)
		return writing == nil
	})
	switch {
	case writing != nil:
		return false, writing
	case err != nil && len(open) > 0:
		err = fmt.Errorf("%w; without an answer: %s", err, strings.Join(open, ", "))
	}
	if err != nil {
		return false, o.emit(way, unanswered(err))
	}
	return true, nil
}

// answer sends a plan and gives every event up to its end to each, which returns
// false to stop.
func answer(ctx context.Context, session *injector.Session, plan probe.Plan, each func(probe.Event) bool) error {
	if err := session.Send(ctx, probe.Request{Type: probe.RequestPlan, Plan: &plan}); err != nil {
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

func unplaced(way string, err error) probe.Event {
	r := probe.Result{Check: checkPlaced, Target: way, Status: probe.Unknown, Saw: explainError(err)}
	if pe, ok := errors.AsType[*injector.PlacementError](err); ok {
		r = r.With(probe.FactReason, string(pe.Reason))
		switch pe.Reason {
		case injector.ReasonRuntime:
			r.Saw += "; on the node itself, 'calico-probe run --via local --checks runtime' asks the runtime why"
		case injector.ReasonKubelet:
			r.Saw += "; on the node itself, 'calico-probe run --via local' asks the kubelet and the rest"
		}
	}
	return probe.Event{Type: probe.EventResult, Result: &r, Way: way}
}

func unanswered(err error) probe.Event {
	r := probe.Result{Check: checkAnswered, Status: probe.Unknown, Saw: explainError(err)}
	if pe, ok := errors.AsType[*injector.PlacementError](err); ok {
		r = r.With(probe.FactReason, string(pe.Reason))
	}
	return probe.Event{Type: probe.EventResult, Result: &r}
}

// note says what the user must know on any stream.
func (o *runOptions) note(format string, args ...any) { say(o.ErrOut, format, args...) }
