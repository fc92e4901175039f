package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/tools"
	"github.com/calico-probe/calico-probe/prompt"
	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/ui"
)

// shCommand is the one command that lets its user change the node.
func (c *conversation) shCommand() *prompt.Command {
	return &prompt.Command{
		Name: tools.Sh.Name, Usage: tools.Sh.Usage, Short: tools.Sh.Short, Doc: tools.Sh.Doc,
		Check: func(args []string) error { _, err := tools.Sh.Parse(args); return err },
		Run:   c.sh, Terminal: true, Plain: oneCommand,
	}
}

// oneCommand tells that a shell is to run one command and that is all.
func oneCommand(args []string) bool {
	return slices.Contains(args, "-c") || slices.Contains(args, "--")
}

// asItIs is for what a program writes that the user has chosen: one that has the terminal
// to itself, or whose output, such as tcpdump's, is piped on.
func asItIs(b []byte) []byte { return b }

// lines is for a terminal in raw mode on which a program that may write lines writes: what
// steers it is left out but for the beginning of the line and one back, as of a tty's echo.
func lines(b []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' || r == '\b' || unicode.IsGraphic(r) {
			return r
		}
		return '?'
	}, b)
}

// sh gives the user a shell on the node, or runs one command in it.
func (c *conversation) sh(ctx context.Context, call *prompt.Call) error {
	toolbox := false
	for _, arg := range call.Args {
		if arg == "-c" || arg == "--" {
			break
		}
		toolbox = toolbox || arg == "--toolbox"
	}
	outcome, err := c.shOf(ctx, call, call.Args, toolbox)
	reason := outcome.Facts.Str(probe.FactReason)
	if err == nil && !toolbox && outcome.Status == probe.Skip && (reason == tools.ReasonNoShell || reason == tools.ReasonNoRoot) {
		say(c.ErrOut, "%s; taking the toolbox instead", outcome.Saw)
		outcome, err = c.shOf(ctx, call, append([]string{"--toolbox"}, call.Args...), true)
	}
	if err != nil {
		return err
	}
	return c.cameTo(outcome)
}

// shOf runs the shell of the node, or that of the toolbox, by a probe that may.
func (c *conversation) shOf(ctx context.Context, call *prompt.Call, args []string, toolbox bool) (probe.Result, error) {
	in, typed := c.In.(*os.File)
	out, shown := prompt.Bare(c.Out).(*os.File)
	alone := call.Terminal && typed && shown && ui.IsTerminal(in)
	if !alone && !oneCommand(args) { // before anything is put anywhere
		return probe.Result{}, prompt.Usagef("a shell takes a terminal; without one, give it a command: sh -c COMMAND")
	}
	s, leave, err := c.shellSeat(ctx, toolbox)
	if err != nil {
		return probe.Result{}, err
	}
	what := probe.Call{Tool: tools.Sh.Name, Args: args}
	if !alone {
		to, fit := prompt.Bare(call.Out), asItIs
		if call.Terminal {
			to, fit = call.Out, printable
		}
		outcome, err := s.through(ctx, what, to, fit, func(probe.Event) {})
		return outcome, errors.Join(err, leave())
	}
	kind, fit := terminalKind(), asItIs
	if oneCommand(args) {
		kind, fit = "dumb", lines
	}
	own := []string{"--term", kind}
	if c.told {
		own = append(own, "--quiet")
	}
	what.Args = append(own, args...)
	outcome, err := c.onTerminal(ctx, s, what, in, out, fit)
	c.told = c.told || outcome.Status == probe.OK
	return outcome, errors.Join(err, leave())
}

// shellSeat is a probe that may start a shell. One in a pod of its own has neither the
// rights nor the node's files to write to: for as long as the shell lasts there is
// another one that has; so there is for a toolbox, which is another image. By ephemeral
// that one stays for the session.
func (c *conversation) shellSeat(ctx context.Context, toolbox bool) (s *seat, leave func() error, err error) {
	at := c.at
	stays := func() error { return nil }
	if err := at.ready(ctx); err != nil { // the way it then has decides
		return nil, nil, err
	}
	had := slices.IndexFunc(c.toolboxes, func(s *seat) bool { return s.o.node == at.o.node && s.session != nil && s.session.Gone() == nil })
	switch {
	case !toolbox && at.way != wayPod:
		return at, stays, nil
	case toolbox && at.way == wayEphemeral && had >= 0:
		return c.toolboxes[had], stays, nil
	case at.way == wayLocal:
		return nil, nil, outcomeError{exit(report.ExitIncomplete), "the toolbox is an image, which takes a cluster to run it: by --via local there is none"}
	}
	_, snap, err := at.fresh(ctx)
	if err != nil {
		return nil, nil, err
	}
	own := *at.o
	own.via, own.id, own.forShell, own.picked, own.tally = wayPod, newRunID(), true, nil, report.NewTally()
	if at.way == wayEphemeral { // no other pod could be made
		own.via = wayEphemeral
	}
	if toolbox {
		own.image = c.toolboxImage
	}
	if end, ok := ctx.Deadline(); ok {
		own.timeout = min(own.timeout, time.Until(end).Round(time.Second))
	}
	came := "no probe for a shell was put on the node"
	own.sink = report.SinkFunc(func(ev probe.Event) error {
		if ev.Result != nil {
			came = ev.Result.Saw
		}
		return nil
	})
	in, until := "pod", "the shell ends"
	if own.via == wayEphemeral {
		in, until = "container", "the session ends"
	}
	own.progress("sh takes a privileged %s of its own on %s, until %s", in, own.node, until)
	s = &seat{o: &own, client: at.client, snap: snap}
	if err := s.place(ctx, &own, snap); err != nil {
		return nil, nil, errors.Join(err, s.leave())
	}
	if s.session == nil {
		if toolbox {
			came = strings.ReplaceAll(came, "--image", "--toolbox-image")
		}
		return nil, nil, outcomeError{exit(report.ExitIncomplete), came}
	}
	if s.way == wayEphemeral { // each would stand in the spec of calico-node's pod for good
		c.toolboxes = append(c.toolboxes, s)
		return s, stays, nil
	}
	return s, s.leave, nil
}
