package runbook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// nodes returns the nodes of a run.
func (w *walk) nodes(ctx context.Context, r *Run) ([]string, error) {
	switch {
	case r.On == nil:
		return []string{w.node}, nil
	case len(r.On.Names) == 0:
		out, err := w.World.Nodes(ctx, *r.On, w.node)
		if len(out) > maxNodes {
			return nil, fmt.Errorf("%d nodes match, but a run takes at most %d: narrow the selector", len(out), maxNodes)
		}
		return out, err
	}
	var out []string
	for _, text := range r.On.Names {
		name, err := w.sight().text(ctx, text)
		if err != nil {
			return nil, err
		}
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// agree stops the runbook if the user does not agree to probes on these nodes. The user may agree at a later resume.
func (w *walk) agree(ctx context.Context, at string, s *Step, r *Run, nodes []string) error {
	err := w.World.Agree(ctx, *r, nodes)
	if err == nil || ctx.Err() != nil || errors.As(err, new(Mistake)) {
		return cmp.Or(context.Cause(ctx), err)
	}
	return stop{Outcome{Verdict: wordIncomplete, Says: called(at, s) + ": " + brief(err.Error())}, true}
}

// unanswered returns the nodes of a step that have no answer in the journal.
func (w *walk) unanswered(at string, nodes []string) []string {
	return slices.DeleteFunc(slices.Clone(nodes), func(node string) bool {
		_, ok, _ := w.Journal.ended(at+"@"+node, new(Asked))
		return ok
	})
}

// noNodes stops a runbook that cannot select its nodes. A later resume may succeed.
func noNodes(at string, s *Step, err error) error {
	return stop{Outcome{Verdict: wordIncomplete, Says: fmt.Sprintf("%s: cannot select the nodes: %s", called(at, s), brief(err.Error()))}, true}
}

// askOne examines one node. If that fails, the failure is the answer, unless the user gave the runbook a wrong node.
func (w *walk) askOne(ctx context.Context, node string, r Run, room *budget) (Asked, error) {
	w.World.Progress("checking " + node)
	run, err := w.World.Run(ctx, node, r)
	// An interrupted run may end without an error.
	if ctx.Err() != nil || err != nil && node == w.node && errors.As(err, new(Mistake)) {
		return Asked{}, cmp.Or(context.Cause(ctx), err)
	}
	return reportOf(node, run, err, room), nil
}

// room returns the remaining budget for results in this record.
func (w *walk) room() *budget {
	b := new(budget)
	b.left.Store(maxAnswers)
	for _, e := range w.record.Steps {
		for _, a := range e.Asked {
			for _, r := range a.Results {
				b.left.Add(-r.size())
			}
		}
	}
	return b
}

// onEach calls do for each node, a few at a time.
func onEach(nodes []string, do func(i int, node string) error) error {
	errs := make([]error, len(nodes))
	turn := make(chan struct{}, parallelNodes)
	var all probe.Workers
	for i, node := range nodes {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			errs[i] = probe.Recovered(func() error { return do(i, node) })
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (w *walk) run(ctx context.Context, e *Entry, s *Step) error {
	// A resume must use the same nodes.
	nodes, at, err := effect(w, e.Step+"@", s.Name, func() ([]string, error) { return w.nodes(ctx, s.Run) })
	if err != nil {
		if ctx.Err() != nil || errors.As(err, new(Mistake)) || errors.As(err, new(stop)) {
			return err
		}
		return noNodes(e.Step, s, err)
	}
	if left := w.unanswered(e.Step, nodes); len(left) > 0 && !w.past {
		if err := w.agree(ctx, e.Step, s, s.Run, left); err != nil {
			return err
		}
	}
	e.At, e.Asked = at, make([]Asked, len(nodes))
	times, room := make([]time.Time, len(nodes)), w.room()
	err = onEach(nodes, func(i int, node string) (err error) {
		e.Asked[i], times[i], err = effect(w, e.Step+"@"+node, s.Name,
			func() (Asked, error) { return w.askOne(ctx, node, *s.Run, room) })
		return err
	})
	if err != nil {
		return err
	}
	for _, t := range times {
		if t.After(e.At) {
			e.At = t
		}
	}
	if s.Run.On != nil && len(nodes) < max(1, s.Run.On.Others) {
		e.Text = fmt.Sprintf("%d other nodes were requested, but only %d exist", max(1, s.Run.On.Others), len(nodes))
	}
	w.saw(s.Name, s.Run, e.Asked, e.At)
	return nil
}

// saw makes the results of a run available to expressions.
func (w *walk) saw(name string, r *Run, all []Asked, at time.Time) {
	if name != "" {
		w.steps[name] = seen(all...)
	}
	for _, a := range all {
		if a.Node == w.node {
			here := *r
			here.On = nil
			w.last, w.lastRun, w.own, w.lastAt = []Asked{a}, &here, nil, at.UTC()
		}
		w.answered = w.answered || slices.ContainsFunc(a.Results, func(r Result) bool {
			return r.Check != probe.CheckPlaced && r.Check != probe.CheckAnswered && r.Status != string(probe.Skip) &&
				r.Status != string(probe.Unknown)
		})
	}
}
