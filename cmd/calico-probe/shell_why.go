package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/shell"
)

const whyDoc = `Concludes from the latest answer to each check that was asked in this session, the
neighbours' included. What was not asked does not count, and is named: 'run' asks it.`

func (c *conversation) whyCommand() *shell.Command {
	return &shell.Command{Name: "why", Short: "the causes, of all that was answered so far", Doc: whyDoc, Run: c.why}
}

// concluded shows the latest answers about a node and what follows from them; the exit
// code is the verdict's.
func (s *seat) concluded(sink report.Sink) (exit, error) {
	conclusion, err := replay(s.run.Run(), sink)
	if err != nil {
		return 0, err
	}
	took := s.run.Took()
	conclusion.elapsed = &took
	code := exit(report.ExitHealthy)
	if err := conclusion.conclude(); err != nil && !errors.As(err, &code) {
		return 0, err
	}
	return code, nil
}

// why names the causes first, then what they rest on.
func (c *conversation) why(_ context.Context, call *shell.Call) error {
	s := c.at
	asked := s.run.Asked()
	known := slices.ContainsFunc(s.run.Run().Events, func(ev probe.Event) bool { return ev.Result != nil && ev.Result.Status == probe.Unknown })
	if len(asked) == 0 && !known {
		if _, err := fmt.Fprintf(call.Out, "nothing was asked of %s so far: 'run' asks everything, 'run CHECK...' some of it\n", s.o.node); err != nil {
			return err
		}
		return exit(report.ExitIncomplete)
	}
	var all []probe.Event
	code, err := s.concluded(sinkFunc(func(ev probe.Event) error { all = append(all, ev); return nil }))
	if err != nil {
		return err
	}
	order := []probe.EventType{probe.EventStart, probe.EventCause, probe.EventResult}
	place := func(ev probe.Event) int {
		if i := slices.Index(order, ev.Type); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(all, func(a, b probe.Event) int { return place(a) - place(b) })
	table, err := report.New("table", call.Out, call.Terminal && colourful(c.Out))
	if err != nil {
		return err
	}
	for i, ev := range all {
		if i > 0 && ev.Type != probe.EventCause && all[i-1].Type == probe.EventCause {
			if _, err := fmt.Fprintln(call.Out); err != nil {
				return err
			}
		}
		if err := table.Event(ev); err != nil {
			return err
		}
	}
	if err := c.soFar(call, s, asked); err != nil {
		return err
	}
	if code != report.ExitHealthy {
		return code
	}
	return nil
}

// soFar says how much of what could be asked was asked, and how old that is.
func (c *conversation) soFar(call *shell.Call, s *seat, asked []string) error {
	own := *s.o
	own.want = nil
	if err := own.complete(); err != nil {
		return err
	}
	all, open := own.owes(s.snap), 0
	for _, id := range all {
		if !slices.Contains(asked, id) {
			open++
		}
	}
	text := fmt.Sprintf("asked so far: all %d checks", len(all))
	if open > 0 {
		text = fmt.Sprintf("asked so far: %d of %d checks", len(all)-open, len(all))
	}
	if at := s.run.Oldest(); !at.IsZero() && time.Since(at) >= time.Minute {
		text += fmt.Sprintf(", the oldest answer %v ago", time.Since(at).Round(time.Minute/2))
	}
	if open > 0 {
		text += "; 'run' asks the rest"
	}
	_, err := fmt.Fprintln(call.Out, text)
	return err
}
