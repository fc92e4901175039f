package runbook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
)

// waited is the result of a wait.
type waited struct {
	Held  bool    `json:"held"`
	Tries int     `json:"tries"`
	Asked []Asked `json:"asked"`
	Why   string  `json:"why,omitempty"` // why the last attempt could not be evaluated
}

func (w *walk) wait(ctx context.Context, e *Entry, s *Step) error {
	r := s.Wait.Run
	if r == nil {
		r = w.lastRun
	}
	if r == nil {
		return w.cannotGoOn(called(e.Step, s) + ": there is no earlier run to repeat")
	}
	out, at, err := effect(w, e.Step, s.Name, func() (waited, error) {
		out, err := w.until(ctx, e.Step, s, r)
		e.That, e.Tries, e.Asked = brief(s.Wait.Until), out.Tries, out.Asked // the state of an interrupted wait
		return out, err
	})
	if err != nil {
		return err
	}
	if len(out.Asked) > 0 {
		w.saw(s.Name, r, out.Asked, at)
	}
	e.At, e.That, e.Held, e.Tries, e.Asked = at, brief(s.Wait.Until), &out.Held, out.Tries, out.Asked
	if out.Held {
		return nil
	}
	e.Text = cmp.Or(w.sight().say(ctx, s.Wait.Else),
		fmt.Sprintf("%s was not true within %v", brief(s.Wait.Until), time.Duration(s.Wait.Within)))
	e.Text += "; " + lastWords(out)
	return w.cannotGoOn(e.Text)
}

// lastWords describes the last results of a wait.
func lastWords(out waited) string {
	if len(out.Asked) == 0 {
		return "there was no answer in that time"
	}
	var parts []string
	for _, a := range out.Asked {
		parts = append(parts, a.Node+": "+a.brief())
	}
	if out.Why != "" {
		parts = append(parts, "and it could not be evaluated: "+out.Why)
	}
	return "last results: " + strings.Join(parts, ", ")
}

// brief describes one run in a few words, with its verdict and its causes.
func (a Asked) brief() string {
	var causes []string
	for _, c := range a.Causes {
		causes = append(causes, fmt.Sprintf("%s (%s)", c.ID, c.Confidence))
	}
	out := a.Verdict
	if len(causes) > 0 {
		out += ", " + strings.Join(causes, ", ")
	}
	if a.Lacks != "" {
		out += ", " + a.Lacks
	}
	return plainly(out)
}

// until repeats a run until the condition is true. It is one effect, so an interrupted wait starts again.
func (w *walk) until(ctx context.Context, at string, s *Step, r *Run) (waited, error) {
	var out waited
	within := time.Duration(s.Wait.Within)
	w.World.Waits(fmt.Sprintf("%s: repeating until it is true, for at most %v", called(at, s), within))
	defer w.World.Waits("")
	last, lastRun, own, steps, answered := w.last, w.lastRun, w.own, w.steps, w.answered
	defer func() { w.last, w.lastRun, w.own, w.steps, w.answered = last, lastRun, own, steps, answered }()
	nodes, err := w.nodes(ctx, r)
	if err != nil {
		if ctx.Err() != nil || errors.As(err, new(Mistake)) {
			return out, err
		}
		return out, noNodes(at, s, err)
	}
	if err := w.agree(ctx, at, s, r, nodes); err != nil {
		return out, err
	}
	began := time.Now() // the time to get consent does not count
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		all, room := make([]Asked, len(nodes)), w.room() // each attempt replaces the previous attempt's results
		err := onEach(nodes, func(i int, node string) (err error) {
			if all[i], err = w.askOne(limited, node, *r, room); err == nil {
				all[i], err = through(all[i])
			}
			return err
		})
		switch {
		case ctx.Err() != nil:
			return out, context.Cause(ctx)
		case limited.Err() != nil && err != nil:
			return out, nil // an interrupted attempt has no result
		case err != nil:
			return out, err
		}
		out.Tries++
		out.Asked, out.Why = all, ""
		w.saw("", r, all, time.Now())
		if s.Name != "" {
			w.steps = maps.Clone(steps)
			w.steps[s.Name] = seen(all...)
		}
		if out.Held, err = w.sight().holds(ctx, s.Wait.Until); err != nil {
			out.Why = plainly(err.Error())
		}
		if out.Held {
			return out, nil
		}
		left := within - time.Since(began)
		w.World.Waits(fmt.Sprintf("%s: attempt %d, not yet, %s left; %s", called(at, s), out.Tries, max(0, left).Round(time.Second), lastWords(out)))
		pause := time.NewTimer(cmp.Or(time.Duration(s.Wait.Every), defaultEvery))
		select {
		case <-pause.C:
		case <-limited.Done():
			pause.Stop()
			return out, context.Cause(ctx) // nil if the wait's own limit expired
		}
	}
}
