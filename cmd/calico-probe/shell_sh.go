package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/muesli/cancelreader"
	"golang.org/x/term"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/tools"
	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/shell"
)

// shCommand is the one command that lets its user change the node.
func (c *conversation) shCommand() *shell.Command {
	return &shell.Command{
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
func (c *conversation) sh(ctx context.Context, call *shell.Call) error {
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
func (c *conversation) shOf(ctx context.Context, call *shell.Call, args []string, toolbox bool) (probe.Result, error) {
	s, leave, err := c.shellSeat(ctx, toolbox)
	if err != nil {
		return probe.Result{}, err
	}
	what := probe.Call{Tool: tools.Sh.Name, Args: args}
	in, typed := c.In.(*os.File)
	out, shown := c.Out.(*os.File)
	if !call.Terminal || !typed || !shown || !isTerminal(in) {
		fit := asItIs
		if call.Terminal {
			fit = printable
		}
		var writing error
		outcome, err := s.call(ctx, what, written(call.Out, &writing, fit))
		return outcome, errors.Join(err, writing, leave())
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
// another one that has; so there is for a toolbox, which is another image.
func (c *conversation) shellSeat(ctx context.Context, toolbox bool) (s *seat, leave func() error, err error) {
	at := c.at
	switch {
	case at.session == nil && !at.lost:
		return nil, nil, errors.New("there is no probe on this node: 'run' says why, and tries again")
	case !toolbox && at.way != wayPod: // one that is lost is brought anew when it is called
		return at, func() error { return nil }, nil
	case at.way == wayLocal:
		return nil, nil, errors.New("the toolbox is an image, which takes a cluster to run it: by --via local there is none")
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
	own.sink = sinkFunc(func(ev probe.Event) error {
		if ev.Result != nil {
			came = ev.Result.Saw
		}
		return nil
	})
	s = &seat{o: &own, client: at.client, snap: snap}
	if err := s.place(ctx, &own, snap); err != nil {
		return nil, nil, errors.Join(err, s.leave())
	}
	if s.session == nil {
		if toolbox {
			came = strings.ReplaceAll(came, "--image", "--toolbox-image")
		}
		return nil, nil, errors.New(came)
	}
	return s, s.leave, nil
}

// onTerminal runs a tool that has the user's terminal to itself. Every key goes to it,
// also Ctrl-C; the terminal comes back as it was, however it ends.
func (c *conversation) onTerminal(ctx context.Context, s *seat, what probe.Call, in, out *os.File, fit func([]byte) []byte) (probe.Result, error) {
	size, err := sizeOf(out)
	if err != nil {
		return probe.Result{}, err
	}
	back, err := c.rawTerminal(in, out)
	if err != nil {
		return probe.Result{}, err
	}
	defer back()
	keys, err := cancelreader.NewReader(in)
	if err != nil {
		return probe.Result{}, fmt.Errorf("reading from the terminal: %w", err)
	}
	defer keys.Close()

	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	limit := c.idle
	if limit == 0 {
		limit = math.MaxInt64 // never
	}
	idle := time.AfterFunc(limit, func() {
		end(shell.ErrIdle) // nor was anything written
	})
	defer idle.Stop()

	var typing sync.WaitGroup
	begin := sync.OnceFunc(func() {
		session, id := s.session, s.asked // the seat lets go of one that is lost
		typing.Go(func() { typeInto(ctx, session, id, keys, func() { idle.Reset(limit) }, end) })
		typing.Go(func() { followSize(ctx, session, id, out) })
	})
	what.Size = size
	var failed error
	write := written(out, &failed, fit)
	outcome, err := s.call(ctx, what, func(ev probe.Event) {
		if ev.Type == probe.EventStart {
			begin() // what comes before belongs to nobody
		}
		idle.Reset(limit)
		write(ev)
		if failed != nil {
			end(fmt.Errorf("writing to the terminal: %w", failed))
		}
	})
	cause := context.Cause(ctx)
	end(nil)
	keys.Cancel() // no key that is meant for the prompt is taken
	typing.Wait()
	switch {
	case errors.Is(cause, shell.ErrIdle), failed != nil:
		return outcome, cause
	case err != nil:
		return outcome, fmt.Errorf("the shell is lost: %w", err)
	}
	return outcome, nil
}

// typeInto hands on every key until ctx ends or the terminal is gone. What is typed
// while the line is cut may be lost; the shell is not.
func typeInto(ctx context.Context, session *injector.Session, id int64, keys io.Reader, heard func(), end func(error)) {
	b := make([]byte, 1024)
	for {
		n, err := keys.Read(b)
		if n > 0 {
			heard()
			_ = session.Type(ctx, id, slices.Clone(b[:n]), probe.Size{})
		}
		if err != nil {
			if ctx.Err() == nil {
				end(fmt.Errorf("reading from the terminal: %w", err))
			}
			return
		}
	}
}

// followSize tells of each new size of the terminal.
func followSize(ctx context.Context, session *injector.Session, id int64, out *os.File) {
	changes, stop := resizes()
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes:
			if size, err := sizeOf(out); err == nil {
				_ = session.Type(ctx, id, nil, size)
			}
		}
	}
}

func sizeOf(out *os.File) (probe.Size, error) {
	cols, rows, err := term.GetSize(int(out.Fd()))
	if err != nil {
		return probe.Size{}, fmt.Errorf("asking for the terminal's size: %w", err)
	}
	if cols <= 0 || rows <= 0 { // of one that has none, such as a serial line
		cols, rows = 80, 24
	}
	return probe.Size{Rows: uint16(rows), Cols: uint16(cols)}, nil
}

// rawTerminal gives every key to whoever reads, until back is called, or the program is
// ended by a second signal.
func (c *conversation) rawTerminal(in, out *os.File) (back func(), err error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("taking the terminal: %w", err)
	}
	plain := steerable(out)
	rawTerminal.Store(true)
	restore := sync.OnceFunc(func() {
		rawTerminal.Store(false)
		_ = term.Restore(int(in.Fd()), before) // a terminal that is gone needs nothing back
		plain()
	})
	forget := c.interrupts.atEnd(restore)
	return func() { forget(); restore() }, nil
}
