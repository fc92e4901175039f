package session

import (
	"context"
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// Commands returns the commands of a session.
func (c *Session) Commands() []*prompt.Command {
	all := []*prompt.Command{
		{
			Name: "run", Usage: "[CHECK...]", Short: "run all checks, or only the named checks", Check: checksNamed, Run: c.runChecks,
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
		&prompt.Command{Name: "node", Usage: "NODE", Short: "switch to another node and keep the probe here; or retry on this node, if it has no probe", Check: one("a node"), Run: func(ctx context.Context, call *prompt.Call) error {
			return c.visit(ctx, call.Args[0])
		}},
		&prompt.Command{Name: "exit", Short: "leave, and remove all created objects", Run: func(context.Context, *prompt.Call) error { return prompt.ErrExit }},
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

// one accepts exactly one argument.
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

// byComma splits names at spaces, and at commas as --checks does.
func byComma(args []string) []string {
	var out []string
	for _, arg := range args {
		out = append(out, strings.FieldsFunc(arg, func(r rune) bool { return r == ',' })...)
	}
	return out
}

// runChecks runs all of the node's checks, as the verb run does, or only some. It prints a row for
// each answer.
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
