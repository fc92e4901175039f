package session

import (
	"context"
	"errors"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

const diffWithDoc = `Runs the same checks on this node and NODE at the same time: the checks that ran on this
node so far, or else all checks. Shows where this node is worse or better than NODE.
The probe on NODE stays, as with 'node NODE'.`

func (c *Session) diffCommand() *prompt.Command {
	return &prompt.Command{
		Name: "diff", Usage: "[with] NODE", Short: "show how this node differs from another node", Doc: diffWithDoc,
		Check: func(args []string) error { _, err := otherOf(args); return err },
		Run:   c.diffWith,
	}
}

// otherOf returns the node in the arguments of diff.
func otherOf(args []string) (string, error) {
	if len(args) == 2 && args[0] == "with" {
		args = args[1:]
	}
	if len(args) != 1 {
		return "", errors.New("diff takes the other node: diff NODE")
	}
	return args[0], nil
}

// diffWith compares the node's current state with another node's current state.
func (c *Session) diffWith(ctx context.Context, call *prompt.Call) error {
	here := c.at
	typed, err := otherOf(call.Args)
	if err != nil {
		return prompt.Usagef("%w", err)
	}
	other, err := c.meant(typed)
	if err != nil {
		return err
	}
	if other == here.opts.Node {
		return prompt.Usagef("%s is this node: name another node", other)
	}
	err = c.visit(ctx, other)
	there := c.at
	c.at = here
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	requested := here.answers.Requested()
	var runs [2]report.Run
	var errs [2]error
	var both probe.Workers
	for i, s := range []*nodeSession{there, here} {
		both.Go(func() { runs[i], errs[i] = c.askNow(ctx, s, requested) })
	}
	both.Wait()
	if ctx.Err() != nil { // do not compare a partial answer
		return context.Cause(ctx)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	d := report.Diff(there.opts.Node, runs[0], "this node", runs[1])
	if err := report.WriteDiff(call.Out, "table", d); err != nil {
		return err
	}
	return examine.DiffError(d)
}

// askNow runs some checks on a node, or all, and returns the answers as a separate run.
func (c *Session) askNow(ctx context.Context, s *nodeSession, want []string) (report.Run, error) {
	kept := &examine.Recorder{}
	opts := s.asking(want)
	opts.Baselines, opts.NoFollowUp = 0, true // both nodes must run the same checks
	run, err := examine.New(s.client, opts, nil)
	if err != nil {
		return report.Run{}, err
	}
	if err := c.asks(ctx, s, run, kept); err != nil {
		return report.Run{}, err
	}
	kept.Run.Node = s.opts.Node
	if err := run.Conclude(); err != nil && !errors.As(err, new(ui.Exit)) {
		return report.Run{}, err
	}
	return kept.Run, nil
}
