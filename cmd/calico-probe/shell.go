package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/cmd/util"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/shell"
)

const shellExample = `  # choose a node, the worst first, and look around
  calico-probe shell

  # one node; two questions, without a prompt
  calico-probe shell --node worker-3 -c 'ping 10.244.7.9; bird show protocols'`

// shellOptions are the flags of the shell verb.
type shellOptions struct {
	*runOptions
	idle       time.Duration
	commands   string
	transcript string
}

func (a *app) shell(factory util.Factory) *cobra.Command {
	o := &shellOptions{runOptions: &runOptions{app: a, output: "wide", failOn: "fail", peers: 2, keep: true}}
	cmd := &cobra.Command{
		Use: "shell [--node NODE]", Short: "Look at nodes by hand, through a probe that stays", Example: shellExample,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.asTyped(cmd); err != nil {
				return err
			}
			return o.open(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.node, "node", "", "the node to begin with (default: choose one)")
	f.StringVarP(&o.commands, "command", "c", "", "run these commands, separated by ; or new lines, instead of a prompt")
	f.DurationVar(&o.idle, "idle", 15*time.Minute, "end the session when nothing was typed for so long")
	f.StringVar(&o.transcript, "transcript", "", "record the session in this file, new or a transcript to go on with: commands as they are typed, so type no secrets in them, answers and output, with times (NDJSON, for 'analyze'); of sh only that it was used")
	o.asking(cmd)
	f.Lookup("timeout").DefValue, o.timeout = "4h0m0s", 4*time.Hour
	f.Lookup("timeout").Usage = "hard end of the session, also on the server's side"
	a.flags.AddFlags(f)
	o.completions(cmd, factory)
	return cmd
}

// conversation is a session of the shell verb: the nodes visited, each with its probe.
type conversation struct {
	*shellOptions
	seats []*seat
	at    *seat // the node that is asked

	log       *report.Transcript // nil = none is written
	unwritten sync.Once          // tells that it cannot be
}

func (o *shellOptions) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, overError(o.timeout))
	defer cancel()
	c := &conversation{shellOptions: o}
	defer c.leave()
	interactive := o.commands == "" && isTerminal(o.In) && isTerminal(o.Out)
	if o.node == "" && !interactive {
		return badUsage("no node is named: use --node NODE ('kubectl get nodes' lists them)")
	}
	script := o.commands
	if !interactive && script == "" {
		b, err := io.ReadAll(o.In)
		if err != nil {
			return fmt.Errorf("reading commands from stdin: %w", err)
		}
		script = string(b)
	}
	s := &shell.Shell{
		Commands: c.commandsOf(), Out: o.Out, ErrOut: o.ErrOut, Terminal: isTerminal(o.Out), Idle: o.idle,
		Prompt:     func() string { return c.at.o.node + "> " },
		Interrupts: o.interrupts.take,
		Failed:     c.failed,
		Typed:      c.typed,
	}
	worst := report.ExitHealthy
	begin := func(ctx context.Context) error {
		if err := c.beginTranscript(); err != nil {
			return err
		}
		if err := c.sit(ctx, o.node); err != nil {
			return err
		}
		return nil
	}
	if interactive {
		if err := begin(ctx); err != nil {
			return err
		}
		return s.Interact(ctx)
	}
	if err := s.Check(script); err != nil { // before anything is put anywhere
		return usage(err)
	}
	if err := begin(ctx); err != nil {
		return err
	}
	err := s.Script(ctx, script, func(err error) {
		c.failed(err)
		worst = worse(worst, codeOf(err))
	})
	if over, ok := errors.AsType[overError](context.Cause(ctx)); ok {
		return over // whatever it interrupted
	}
	if err != nil {
		return usage(err)
	}
	if worst != report.ExitHealthy {
		return exit(worst)
	}
	return nil
}

// usage makes the shell's mistakes of typing the program's.
func usage(err error) error {
	if errors.As(err, new(shell.UsageError)) {
		return usageError{err}
	}
	return err
}

// codeOf is the exit code of what a command came to.
func codeOf(err error) int {
	var code exit
	switch {
	case err == nil:
		return report.ExitHealthy
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, new(shell.UsageError)), errors.As(err, new(usageError)):
		return report.ExitUsage
	}
	return report.ExitTool
}

// failed says what a command came to that has not said so itself.
func (c *conversation) failed(err error) {
	if errors.As(err, new(exit)) {
		return
	}
	say(c.ErrOut, "%s", explainError(err))
}

// sit goes to a node: to the probe that is there already, or with a new one.
func (c *conversation) sit(ctx context.Context, node string) error {
	for _, s := range c.seats {
		if s.o.node == node {
			c.at = s
			return nil
		}
	}
	own := *c.runOptions
	own.node = node
	s := &seat{o: &own, run: report.Latest{Node: node}}
	if err := own.complete(); err != nil {
		return err
	}
	_, snap, err := s.fresh(ctx)
	if err != nil {
		return err
	}
	rows, err := rowsOf(c.ErrOut, s)
	if err != nil {
		return err
	}
	own.sink = sinkFunc(func(ev probe.Event) error {
		c.record(s, ev)
		return rows.Event(ev)
	})
	if err := s.place(ctx, &own, snap); err != nil {
		return err
	}
	c.seats, c.at = append(c.seats, s), s
	return nil
}

// leave ends every probe of the session.
func (c *conversation) leave() {
	if err := leaveAll(c.seats); err != nil {
		say(c.ErrOut, "%v", err)
	}
	if c.log != nil {
		if err := c.log.Close(); err != nil {
			say(c.ErrOut, "the transcript: %v", err)
		}
	}
}

// rowsOf shows the answers about a node, one row each.
func rowsOf(w io.Writer, s *seat) (report.Sink, error) {
	rows, err := report.New("wide", w, colourful(w))
	if err != nil {
		return nil, err
	}
	return sinkFunc(func(ev probe.Event) error {
		if ev.Result == nil || ev.Node != s.o.node {
			return nil
		}
		return rows.Event(ev)
	}), nil
}

// sinkFunc is a sink that is one function.
type sinkFunc func(probe.Event) error

func (f sinkFunc) Event(ev probe.Event) error { return f(ev) }
