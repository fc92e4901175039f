package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// stopwatch calls over when the runbook's remaining time has passed. It stops while a person answers a question or
// makes a repair, because that time does not count.
type stopwatch struct {
	left  time.Duration
	over  func()
	timer *time.Timer
	since time.Time
}

func (s *stopwatch) run() {
	s.since = time.Now()
	s.timer = time.AfterFunc(s.left, s.over)
}

func (s *stopwatch) stop() {
	if s.timer.Stop() {
		s.left = max(0, s.left-time.Since(s.since))
	}
}

// lineRead is a line read from the terminal, or the read error.
type lineRead struct {
	text string
	err  error
}

// noPerson returns the reason why no person can answer: the terminal was closed, or reading crashed.
func (l lineRead) noPerson() error {
	if errors.As(l.err, new(*probe.Crash)) {
		return l.err
	}
	return runbook.ErrNoPerson
}

// readLine reads a line that a person types, until the context ends. It ignores input typed before the question.
func (o *runbookOptions) readLine(ctx context.Context, prompt string) (string, error) {
	o.clock.stop()
	defer o.clock.run()
	ui.DropTyped(o.In)
	select {
	case l, more := <-o.lines:
		if l.err != nil || !more {
			return "", l.noPerson()
		}
	default:
	}
	fmt.Fprint(o.ErrOut, prompt)
	if o.lines == nil {
		o.lines = make(chan lineRead)
		in := bufio.NewReader(o.In)
		probe.Detach(func() error { // ends with the program: a read from a terminal cannot be canceled
			defer close(o.lines)
			if crash := probe.Recovered(func() error { readLines(in, o.lines); return nil }); crash != nil {
				o.lines <- lineRead{err: fmt.Errorf("reading the terminal: %w", crash)}
			}
			return nil
		}, func(err error) { ui.Say(o.ErrOut, "reading the terminal %v", err) })
	}
	select {
	case l, more := <-o.lines:
		if l.err != nil || !more { // Ctrl-D, or the terminal was closed
			fmt.Fprintln(o.ErrOut)
			return "", l.noPerson()
		}
		return strings.TrimSpace(l.text), nil
	case <-ctx.Done():
		fmt.Fprintln(o.ErrOut)
		return "", context.Cause(ctx)
	}
}

// readLines forwards the lines of a terminal until it is closed.
func readLines(in *bufio.Reader, lines chan<- lineRead) {
	for {
		text, err := in.ReadString('\n')
		lines <- lineRead{text, err}
		if err != nil {
			return
		}
	}
}

func (o *runbookOptions) askPerson(ctx context.Context, q runbook.Question) (string, error) {
	if !o.atTerminal() {
		return "", runbook.ErrNoPerson
	}
	if q.Wrong != "" {
		ui.Say(o.ErrOut, "%q is not a valid answer", q.Wrong)
	}
	var hints []string
	if len(q.Options) > 0 {
		hints = append(hints, strings.Join(q.Options, ", "))
	}
	if q.Default != nil {
		hints = append(hints, "Enter = "+*q.Default)
	}
	prompt := "\n" + probe.OneLine(q.Text)
	if len(hints) > 0 {
		prompt += " [" + probe.OneLine(strings.Join(hints, "; ")) + "]"
	}
	return o.readLine(ctx, prompt+" ")
}

// confirm shows an action's effect, and returns true if the user types the name of its step.
func (o *runbookOptions) confirm(ctx context.Context, p runbook.Proposal) (bool, error) {
	if !o.atTerminal() {
		return false, runbook.ErrNoPerson
	}
	w := o.ErrOut
	for _, k := range p.Kept {
		fmt.Fprintf(w, "\nsaved before it ran: %s\n", probe.OneLine(k.Label()))
		if k.Failed != "" {
			fmt.Fprintf(w, "  NOT saved: %s\n", probe.OneLine(k.Failed))
		}
		for _, line := range k.Lines {
			fmt.Fprintf(w, "  %s\n", probe.Line(line)) // keep columns and indents
		}
	}
	fmt.Fprintf(w, "\n%s\n  touches: %s\n  command: %s\n  dry run:\n", probe.OneLine(p.Says), probe.OneLine(p.Touches), probe.OneLine(runbook.Quoted(p.Command)))
	for line := range strings.Lines(p.DryRun) {
		fmt.Fprintf(w, "    %s\n", probe.OneLine(line))
	}
	if p.Seen != "" {
		fmt.Fprintf(w, "  CAUTION: %s: check again with a new run first\n", probe.OneLine(p.Seen))
	}
	if p.Before != "" {
		fmt.Fprintf(w, "  CAUTION: it may have been done already: %s; check first\n", probe.OneLine(p.Before))
	}
	prompt := fmt.Sprintf("to run this action, type %s: ", p.Step)
	text, err := o.readLine(ctx, prompt)
	// a typing error, or "yes"
	if err == nil && text != p.Step && text != "" && !strings.HasPrefix("no", strings.ToLower(text)) {
		text, err = o.readLine(ctx, fmt.Sprintf("%q is not the name of the step (Enter skips the action); %s", text, prompt))
	}
	return text == p.Step, err
}
