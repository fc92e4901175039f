package main

import (
	"context"
	"errors"
	"sync"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/prompt"
	"github.com/calico-probe/calico-probe/report"
)

const diffWithDoc = `Asks this node and NODE at the same time what was asked of this one so far, or
everything where nothing was, and shows what this one has worse or better than NODE.
NODE has a probe then that stays, as with 'node NODE'.`

func (c *conversation) diffCommand() *prompt.Command {
	return &prompt.Command{
		Name: "diff", Usage: "with NODE", Short: "what this node and another one do not have alike", Doc: diffWithDoc, Run: c.diffWith,
		Check: func(args []string) error {
			if len(args) != 2 || args[0] != "with" {
				return errors.New("say diff with NODE")
			}
			return nil
		},
	}
}

// diffWith compares the node with another one, both asked now.
func (c *conversation) diffWith(ctx context.Context, call *prompt.Call) error {
	here := c.at
	other, err := c.meant(call.Args[1])
	if err != nil {
		return err
	}
	if other == here.o.node {
		return prompt.Usagef("%s is this node: name another one", other)
	}
	err = c.sit(ctx, other)
	there := c.at
	c.at = here
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	asked := here.run.Asked()
	var runs [2]report.Run
	var errs [2]error
	var both sync.WaitGroup
	for i, s := range []*seat{there, here} {
		both.Go(func() { runs[i], errs[i] = c.fresh(ctx, s, asked) })
	}
	both.Wait()
	if ctx.Err() != nil { // half an answer is compared with nothing
		return context.Cause(ctx)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	return showDiff(call.Out, "table", report.Diff(there.o.node, runs[0], "this node", runs[1]))
}

// fresh has a node answer some checks, or all, and gives that as a run of its own.
func (c *conversation) fresh(ctx context.Context, s *seat, want []string) (report.Run, error) {
	own := *s.o
	own.want, own.peers = want, 0
	if err := own.complete(); err != nil {
		return report.Run{}, err
	}
	kept := &recorder{}
	if err := c.asks(ctx, s, &own, kept); err != nil {
		return report.Run{}, err
	}
	kept.run.Node = s.o.node
	if err := own.conclude(); err != nil && !errors.As(err, new(exit)) {
		return report.Run{}, err
	}
	return kept.run, nil
}

// only are the results among events about a node.
func only(s *seat, events []probe.Event) []probe.Result {
	var out []probe.Result
	for _, ev := range events {
		if ev.Result != nil && ev.Node == s.o.node {
			out = append(out, *ev.Result)
		}
	}
	return out
}
