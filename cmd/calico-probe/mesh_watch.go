package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/calico-probe/calico-probe/internal/fleet"
	"github.com/calico-probe/calico-probe/internal/live"
	"github.com/calico-probe/calico-probe/internal/mesh"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// watchFlags are the flags of mesh --watch.
type watchFlags struct {
	on    bool
	every time.Duration
	whole time.Duration
}

func (w *watchFlags) flags(f *pflag.FlagSet) {
	f.BoolVar(&w.on, "watch", false, "keep testing with a probe on each node, and show all paths in a table, worst first; "+
		"without a terminal, print a line for each change")
	f.DurationVar(&w.every, "interval", 5*time.Second, "with --watch: interval between rounds, 1s or more")
	f.DurationVar(&w.whole, "for", time.Hour, "with --watch: exit after this time")
}

// validate rejects flags that conflict with each other.
func (w *watchFlags) validate(f *pflag.FlagSet) error {
	own, others := []string{"interval", "for"}, []string{"output", "timeout", "profile", "rack-label"}
	switch {
	case w.on && w.every < time.Second:
		return ui.BadUsage("--interval must be a second or more")
	case w.on && w.whole < w.every:
		return ui.BadUsage("--for must not be shorter than --interval")
	}
	for _, name := range own {
		if !w.on && f.Changed(name) {
			return ui.BadUsage("--%s needs --watch: use both, or neither", name)
		}
	}
	for _, name := range others {
		if w.on && f.Changed(name) {
			return ui.BadUsage("--watch does not support --%s: leave out one of them", name)
		}
	}
	return nil
}

// placingLimit is the time limit for placing and removing a watch's probes.
const placingLimit = 2 * time.Minute

// watchMesh tests paths until the duration is over or the user quits.
func (o *runFlags) watchMesh(cmd *cobra.Command, opts fleet.MeshOptions, w *watchFlags) error {
	client, err := o.client()
	if err != nil {
		return err
	}
	in, isFile := o.In.(*os.File)
	shows := isFile && ui.IsTerminal(in) && ui.IsTerminal(o.Out) && os.Getenv("TERM") != "dumb"
	messages := &redirected{to: o.ErrOut}
	client = client.Writing(messages)
	opts.Timeout = w.whole + placingLimit
	run, err := fleet.NewMesh(client, opts)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), w.whole)
	defer cancel()
	at, err := client.Cluster()
	if err != nil {
		return err
	}
	watch, err := run.Watch(ctx, w.every)
	if err != nil {
		return err
	}
	defer watch.Close()
	names := watch.Nodes()
	title := fmt.Sprintf("%d nodes of %s", len(names), at)
	began, board := time.Now(), mesh.NewBoard(w.every, names...)
	if shows {
		s := live.New(title, board, in, prompt.Bare(o.Out), ui.Colourful(o.Out))
		err = o.onScreen(ctx, cancel, watch.Run, s, messages)
	} else {
		err = o.inLines(ctx, cancel, watch, board, title)
	}
	if err != nil {
		return err
	}
	if cmd.Context().Err() != nil { // stopped by a signal
		return context.Cause(cmd.Context())
	}
	return o.ended(board, time.Since(began))
}

// redirected is a writer that can temporarily send its output to another writer.
type redirected struct {
	mu   sync.Mutex
	to   io.Writer
	away io.Writer // the other writer; nil = not redirected
}

func (r *redirected) Write(b []byte) (int, error) {
	r.mu.Lock()
	to := r.to
	if r.away != nil {
		to = r.away
	}
	r.mu.Unlock()
	return to.Write(b)
}

// Unwrap returns the wrapped writer. Callers use it to recognize a terminal.
func (r *redirected) Unwrap() io.Writer { return r.to }

func (r *redirected) send(away io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
}

// onScreen shows a watch on the full screen, until the user quits or the context ends.
func (o *runFlags) onScreen(ctx context.Context, cancel func(), watch func(context.Context, func(mesh.RoundReport)),
	s *live.Screen, messages *redirected,
) error {
	back := o.interrupts.AtEnd(s.Restore)
	defer back()
	messages.send(s)
	ended := probe.Async(func() error { watch(ctx, s.Add); return nil })
	defer context.AfterFunc(ctx, s.Leave)()
	err := s.Run()
	messages.send(nil)
	cancel()
	ui.Say(o.ErrOut, "removing the probes")
	return errors.Join(err, <-ended)
}

// inLines writes a line for each change of a path, and a summary every minute.
func (o *runFlags) inLines(ctx context.Context, cancel func(), watch *fleet.Watch, board *mesh.Board,
	title string,
) error {
	var back func()
	back = o.interrupts.Take(sync.OnceFunc(func() {
		ui.Say(o.ErrOut, "stopping: removing the probes (repeat to exit immediately)")
		time.AfterFunc(time.Second, func() { back() }) // timeout(1) sends the signal twice; one second later, back is set
		cancel()
	}))
	defer back()
	lines := &changes{to: o.Out, board: board, summed: time.Now()}
	lines.say(time.Now(), "watching the paths between %s", title)
	watch.Run(ctx, func(h mesh.RoundReport) {
		if lines.hear(h); lines.broken != nil {
			cancel()
		}
	})
	return lines.broken
}

// changes writes each change in the state of a board's paths.
type changes struct {
	to     io.Writer
	board  *mesh.Board
	summed time.Time // time of the last summary
	first  bool      // a summary was written
	broken error     // the error from the writer
}

func (c *changes) say(at time.Time, format string, args ...any) {
	if c.broken == nil {
		_, c.broken = fmt.Fprintf(c.to, "%s %s\n", at.UTC().Format("15:04:05"), probe.Line(fmt.Sprintf(format, args...)))
	}
}

// hear writes the path changes that a node reports.
func (c *changes) hear(h mesh.RoundReport) {
	before := c.board.Lost(h.Node)
	all := c.board.Add(h)
	switch {
	case before == "" && h.Lost != "":
		c.say(h.At, "no answer from %s: %s", h.Node, h.Lost)
	case before != "" && h.Lost == "":
		c.say(h.At, "%s answers again", h.Node)
	}
	for _, change := range all {
		t := change.Trial
		if t.Failed {
			c.say(h.At, "%s: from %s to %s fails: %s", change.Plane, t.From, t.To, t.Saw)
		} else {
			c.say(h.At, "%s: from %s to %s works again after %s: %s", change.Plane, t.From, t.To, probe.Age(change.For), t.Saw)
		}
	}
	if sum := c.board.Sum(); h.At.Sub(c.summed) >= time.Minute || !c.first && sum.Round > 2 {
		c.summed, c.first = h.At, true
		c.say(h.At, "round %d: %v", sum.Round, sum)
	}
}

// maxFailing is the maximum number of failing paths that a watch lists at its end.
const maxFailing = 10

// ended prints the final state of the paths, and returns the exit code.
func (o *runFlags) ended(board *mesh.Board, took time.Duration) error {
	sum := board.Sum()
	_, err := fmt.Fprintf(o.Out, "after %v, in round %d: %v\n", took.Round(time.Second), sum.Round, sum)
	for i, r := range board.Rows("") {
		if r.State != mesh.Fails || err != nil {
			break
		}
		if i == maxFailing {
			_, err = fmt.Fprintf(o.Out, "  and %d more\n", sum.Fail-i)
			break
		}
		_, err = fmt.Fprintf(o.Out, "  %s: from %s to %s fails: %s\n", r.Plane, r.From, r.To, probe.Line(r.Saw))
	}
	silent := slices.Clone(sum.Lost)
	for _, node := range sum.Awaited {
		silent = append(silent, node+": its probe had not answered yet")
	}
	for _, lost := range silent {
		_, said := fmt.Fprintf(o.Out, "  no answer from %s\n", probe.Line(lost))
		err = errors.Join(err, said)
	}
	switch {
	case err != nil:
		return err
	case sum.Fail > 0:
		return ui.Exit(report.ExitFault)
	case sum.Paths == 0 || sum.Silent > 0 || len(sum.Lost)+len(sum.Awaited) > 0:
		return ui.Exit(report.ExitIncomplete)
	}
	return nil
}
