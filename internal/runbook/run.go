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

// nodes are those a run asks.
func (w *walk) nodes(ctx context.Context, r *Run) ([]string, error) {
	switch {
	case r.On == nil:
		return []string{w.node}, nil
	case len(r.On.Names) == 0:
		out, err := w.World.Nodes(ctx, *r.On, w.node)
		if len(out) > maxNodes {
			return nil, fmt.Errorf("%d nodes are picked, and a run asks %d at most: narrow the selector", len(out), maxNodes)
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

// agree stops the runbook unless probes may be placed on these nodes. A later resume may have the consent.
func (w *walk) agree(ctx context.Context, at string, s *Step, r *Run, nodes []string) error {
	err := w.World.Agree(ctx, *r, nodes)
	if err == nil || ctx.Err() != nil || errors.As(err, new(Mistake)) {
		return cmp.Or(context.Cause(ctx), err)
	}
	return stop{Outcome{Verdict: wordIncomplete, Says: called(at, s) + ": " + brief(err.Error())}, true}
}

// unanswered are those of the nodes of a step that have no answer in the journal.
func (w *walk) unanswered(at string, nodes []string) []string {
	return slices.DeleteFunc(slices.Clone(nodes), func(node string) bool {
		_, ok, _ := w.Journal.ended(at+"@"+node, new(Asked))
		return ok
	})
}

// noNodes is what a runbook comes to that cannot be told which nodes to ask, which may be
// better later.
func noNodes(at string, s *Step, err error) error {
	return stop{Outcome{Verdict: wordIncomplete, Says: fmt.Sprintf("%s: which nodes to ask is not known: %s", called(at, s), brief(err.Error()))}, true}
}

// askOne asks one node. That it cannot be asked is an answer, unless it is a mistake
// about the node of the runbook.
func (w *walk) askOne(ctx context.Context, node string, r Run, room *budget) (Asked, error) {
	w.World.Progress("asking " + node)
	run, err := w.World.Run(ctx, node, r)
	// a run that was cut may end without an error
	if ctx.Err() != nil || err != nil && node == w.node && errors.As(err, new(Mistake)) {
		return Asked{}, cmp.Or(context.Cause(ctx), err)
	}
	return asked(node, run, err, room), nil
}

// room is what the steps so far leave of a record's room for results.
func (w *walk) room() *budget {
	b := new(budget)
	b.left.Store(mostAnswers)
	for _, e := range w.record.Steps {
		for _, a := range e.Asked {
			for _, r := range a.Results {
				b.left.Add(-r.size())
			}
		}
	}
	return b
}

// onEach does something for every node, a few at a time.
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
	// Which nodes those are must not change under a resume.
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
		e.Text = fmt.Sprintf("%d nodes were to be asked, and there were %d", max(1, s.Run.On.Others), len(nodes))
	}
	w.saw(s.Name, s.Run, e.Asked, e.At)
	return nil
}

// saw makes what was asked what expressions read.
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
