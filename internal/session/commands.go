package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// Commands are what can be typed in a session.
func (c *Session) Commands() []*prompt.Command {
	all := []*prompt.Command{
		{
			Name: "run", Usage: "[CHECK...]", Short: "ask everything, or these checks", Check: checksNamed, Run: c.runChecks,
			Complete: func(context.Context, []string) []string { return examine.CheckIDs(examine.Suite()) },
		},
	}
	for _, t := range tools.All() {
		if t == tools.Sh {
			all = append(all, c.shCommand())
			continue
		}
		all = append(all, c.tool(t))
	}
	all = append(all, c.in())
	all = append(all, c.watchCommand(), c.whyCommand(), c.peersCommand(), c.diffCommand(), c.saveCommand())
	all = append(all, c.opts.Lookups...)
	all = append(all,
		&prompt.Command{Name: "node", Usage: "NODE", Short: "go to another node, and the probe here stays; or try again on this one, which has none", Check: one("a node"), Run: func(ctx context.Context, call *prompt.Call) error {
			return c.visit(ctx, call.Args[0])
		}},
		&prompt.Command{Name: "exit", Short: "leave, and remove what was created", Run: func(context.Context, *prompt.Call) error { return prompt.ErrExit }},
	)
	for _, command := range all {
		run := command.Run
		command.Run = func(ctx context.Context, call *prompt.Call) error {
			err := run(ctx, call)
			c.done(ctx, err)
			return err
		}
	}
	return all
}

// one refuses any but one argument.
func one(what string) func([]string) error {
	return func(args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("this takes %s", what)
		}
		return nil
	}
}

func checksNamed(args []string) error {
	_, err := probe.Select(examine.Suite(), byComma(args), nil)
	return err
}

// byComma are names that are apart by blanks or, as --checks takes them, by commas.
func byComma(args []string) []string {
	var out []string
	for _, arg := range args {
		out = append(out, strings.FieldsFunc(arg, func(r rune) bool { return r == ',' })...)
	}
	return out
}

// runChecks asks everything there is to ask about the node, like the verb run, or some
// checks only, of which each answer is a row.
func (c *Session) runChecks(ctx context.Context, call *prompt.Call) error {
	s := c.at
	if len(call.Args) == 0 {
		run, err := examine.New(s.client, s.asking(c.opts.Run.Checks), nil)
		if err != nil {
			return err
		}
		if err := c.asks(ctx, s, run, c.tableTo(call)); err != nil {
			return err
		}
		return run.Conclude()
	}
	opts := s.asking(byComma(call.Args))
	opts.OnlyNamed = true
	run, err := examine.New(s.client, opts, nil)
	if err != nil {
		return err
	}
	if err := c.asks(ctx, s, run, rowsOf(call.Out, s)); err != nil {
		return err
	}
	if v := run.Tally.Verdict(false); v.Exit != report.ExitHealthy {
		return ui.Exit(v.Exit)
	}
	return nil
}

// tool makes a command of a tool.
func (c *Session) tool(t *probe.Tool) *prompt.Command {
	return &prompt.Command{
		Name: t.Name, Usage: t.Usage, Short: t.Short, Doc: t.Doc, Raw: t == tools.Logs,
		Check: t.Check,
		Run: func(ctx context.Context, call *prompt.Call) error {
			return c.useTool(ctx, call, probe.Call{Tool: t.Name, Args: call.Args})
		},
	}
}

// useTool runs a tool on the node and shows what it writes.
func (c *Session) useTool(ctx context.Context, call *prompt.Call, what probe.Call) error {
	s, leave := c.at, func() error { return nil }
	if tools.Traces(what) {
		var err error
		if s, leave, err = c.traceNode(ctx, what); err != nil {
			return err
		}
	}
	var wrote []byte
	outcome, err := s.through(ctx, what, call.Out, printable, func(ev probe.Event) {
		if ev.Type == probe.EventOut && len(wrote) < maxRead {
			wrote = append(wrote, bytesOf(ev)...)
		}
		c.record(c.at, ev)
	})
	if err := errors.Join(err, leave()); err != nil {
		return err
	}
	err = c.cameTo(outcome)
	if e, is := errors.AsType[outcomeError](err); is && call.Out == c.stdout {
		e.read = repeats(outcome.Saw, string(wrote))
		return e
	}
	return err
}

// maxRead bounds what is kept of a tool's output to know whether a person has read its outcome there.
const maxRead = 64 << 10

// repeats reports whether an outcome is a line of what the tool has written, maybe after what it was about.
func repeats(saw, wrote string) bool {
	_, without, _ := strings.Cut(saw, ": ")
	for line := range strings.Lines(wrote) {
		if line = strings.TrimSpace(line); line == saw || line != "" && line == without {
			return true
		}
	}
	return false
}

// through runs a tool whose output goes to a writer, and ends it once that takes no more:
// it may be the end of a pipe that has ended.
func (s *nodeSession) through(ctx context.Context, what probe.Call, to io.Writer, fit func([]byte) []byte,
	each func(probe.Event)) (probe.Result, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var writing error
	show := written(to, &writing, fit)
	outcome, err := s.call(ctx, what, func(ev probe.Event) {
		each(ev)
		if show(ev); writing != nil {
			end()
		}
	})
	if writing != nil {
		return outcome, fmt.Errorf("writing what it says: %w", writing)
	}
	return outcome, err
}

// written writes what a tool writes, made fit first; the first error is kept in failed.
func written(to io.Writer, failed *error, fit func([]byte) []byte) func(probe.Event) {
	return func(ev probe.Event) {
		if ev.Type != probe.EventOut || *failed != nil {
			return
		}
		_, *failed = to.Write(fit(bytesOf(ev)))
	}
}

// printable keeps what a node says from steering a terminal, also one that it is piped to.
func printable(b []byte) []byte {
	return []byte(probe.Plain(string(b)))
}

// cameTo says how a tool went, where that is not good.
func (c *Session) cameTo(outcome probe.Result) error {
	switch outcome.Status {
	case probe.OK, probe.Info, probe.Warn:
		return nil
	case probe.Fail:
		return outcomeError{exit: ui.Exit(report.ExitFault), saw: outcome.Saw}
	}
	return outcomeError{exit: ui.Exit(report.ExitIncomplete), saw: outcome.Saw}
}
