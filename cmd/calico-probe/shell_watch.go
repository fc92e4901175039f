package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/tools"
	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/shell"
)

const watchDoc = `Asks again and again, every two seconds or as -n says, until Ctrl-C. Shows the first
answers, then what appears, goes, has another status or says something else; times,
ages and counters that move by themselves are no change. After a minute without one a
line says that it still looks. Of a tool the lines are compared that begin with the
same word.

  watch bgp-session
  watch -n 10 felix
  watch bird show protocols`

// watching is what watch was told.
type watching struct {
	every time.Duration
	want  []string    // checks
	tool  *probe.Tool // or this, with args
	args  []string
}

// Less would be more load than the node's own, more is no watching.
const (
	leastEvery = 500 * time.Millisecond
	mostEvery  = time.Hour
)

func watchingOf(args []string) (watching, error) {
	w := watching{every: 2 * time.Second}
	if len(args) > 0 && args[0] == "-n" {
		var seconds float64
		err := errors.New("is missing")
		if len(args) > 1 {
			seconds, err = strconv.ParseFloat(args[1], 64)
		}
		if err != nil || !(seconds >= leastEvery.Seconds() && seconds <= mostEvery.Seconds()) {
			return w, fmt.Errorf("-n takes the seconds between two times, from %g to %g", leastEvery.Seconds(), mostEvery.Seconds())
		}
		w.every, args = time.Duration(seconds*float64(time.Second)), args[2:]
	}
	if len(args) == 0 {
		return w, errors.New("watch takes checks, or a command of a tool")
	}
	if i := slices.IndexFunc(tools.All(), func(t *probe.Tool) bool { return t.Name == args[0] && !t.Reads }); i >= 0 {
		w.tool, w.args = tools.All()[i], args[1:]
		_, err := w.tool.Parse(w.args)
		return w, err
	}
	w.want = args
	return w, checksNamed(args)
}

func (c *conversation) watchCommand() *shell.Command {
	return &shell.Command{
		Name: "watch", Usage: "[-n SECONDS] CHECK...", Short: "ask again and again, and show what changes", Doc: watchDoc, Run: c.watch,
		Check:    func(args []string) error { _, err := watchingOf(args); return err },
		Complete: func(context.Context, []string) []string { return checkIDs(suite()) },
	}
}

// watch asks until Ctrl-C, which is how it is meant to end.
func (c *conversation) watch(ctx context.Context, call *shell.Call) error {
	what, err := watchingOf(call.Args)
	if err != nil {
		return shell.Usagef("%w", err)
	}
	if what.tool == nil { // what this way cannot ask is told at once
		own := *c.at.o
		own.want = what.want
		if err := own.complete(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer c.interrupts.takeFree(cancel)() // at a prompt it ends ctx
	changes := report.NewChanges(call.Out, call.Terminal && colourful(c.Out))
	tick := time.NewTicker(what.every)
	defer tick.Stop()
	for {
		answers, lost := c.once(ctx, c.at, what)
		if ctx.Err() != nil {
			return nil
		}
		if err := changes.Round(time.Now(), answers, lost); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// once asks one time; lost says why the answers are not whole.
func (c *conversation) once(ctx context.Context, s *seat, what watching) (answers []probe.Result, lost string) {
	if what.tool != nil {
		return c.useOnce(ctx, s, what)
	}
	own := *s.o
	own.want = what.want
	if err := own.complete(); err != nil {
		return nil, explainError(err)
	}
	own.byName()
	var events []probe.Event
	err := c.asks(ctx, s, &own, sinkFunc(func(ev probe.Event) error { events = append(events, ev); return nil }))
	for _, r := range only(s, events) {
		switch {
		case r.Check != probe.CheckPlaced && r.Check != probe.CheckAnswered:
			answers = append(answers, r)
		case r.Status == probe.Unknown:
			lost = r.Saw
		}
	}
	if err != nil {
		lost = explainError(err)
	}
	return answers, lost
}

// useOnce runs a tool one time. Each line it writes is an answer about its first word,
// which in a table is a name.
func (c *conversation) useOnce(ctx context.Context, s *seat, what watching) (answers []probe.Result, lost string) {
	var out strings.Builder
	outcome, err := s.call(ctx, probe.Call{Tool: what.tool.Name, Args: what.args}, func(ev probe.Event) {
		c.record(s, ev)
		out.Write(bytesOf(ev))
	})
	if err != nil {
		return nil, explainError(err)
	}
	for line := range strings.Lines(out.String()) {
		first, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if first != "" {
			answers = append(answers, probe.Found(probe.Info, "%s", strings.Join(strings.Fields(rest), " ")).On(first))
			answers[len(answers)-1].Check = what.tool.Name
		}
	}
	if outcome.Status == probe.Unknown {
		lost = outcome.Saw
	}
	return answers, lost
}
