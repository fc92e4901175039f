package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/muesli/cancelreader"
	"k8s.io/kubectl/pkg/util/interrupt"
	"k8s.io/kubectl/pkg/util/term"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// errLeft is a user who has left the shell, whatever it does.
var errLeft = errors.New("left the shell")

// errSignal is the end of a shell whose terminal a signal has restored.
var errSignal = errors.New("the shell was ended by a signal")

// onTerminal runs a tool that has the user's terminal to itself, from its start on: every
// key goes to it then, also Ctrl-C, and before that Ctrl-C ends it as it ends any other.
// The terminal comes back as it was, however it ends, and at once.
func (c *Session) onTerminal(ctx context.Context, s *nodeSession, what probe.Call, in, out *os.File,
	fit func([]byte) []byte) (probe.Result, error) {
	changes := c.resizes(out) // first, so that none is missed
	var known bool
	if what.Size, known = sizeOf(out); !known {
		return probe.Result{}, errors.New("the terminal does not report its size")
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	a := &attached{limit: c.opts.Idle, end: end, watches: func() bool { return true }, ended: make(chan struct{})}
	if a.limit == 0 {
		a.limit = math.MaxInt64 // never
	}
	var begun, failed error
	write := func(probe.Event) {}
	outcome, err := s.call(ctx, what, func(ev probe.Event) {
		switch {
		case ev.Type == probe.EventStart && a.mine == nil:
			if begun = a.take(ctx, c, in, out); begun != nil {
				end(begun)
				return
			}
			a.forward(ctx, s, what.Size, changes, out)
			write = written(a.mine, &failed, fit)
		case a.idle != nil:
			a.idle.Reset(a.limit)
		}
		if write(ev); failed != nil {
			end(fmt.Errorf("writing to the terminal: %w", failed))
		}
	})
	cause := context.Cause(ctx)
	a.release(outcome)
	switch {
	case errors.Is(cause, prompt.ErrIdle), begun != nil, failed != nil:
		return outcome, cause
	case err != nil && errors.Is(cause, errLeft):
		return outcome, fmt.Errorf("left the shell, and its end was not seen: %w", err)
	case err != nil && a.mine != nil && outcome.Status == "":
		return outcome, fmt.Errorf("the shell is lost: %w", err)
	}
	return outcome, err
}

// attached is the user's terminal and a tool that has it to itself.
type attached struct {
	limit   time.Duration // how long nothing may be typed or written
	end     context.CancelCauseFunc
	idle    *time.Timer  // nil = the tool has not begun
	mine    *rawTerminal // nil = the terminal is still the prompt's
	keys    cancelreader.CancelReader
	typing  probe.Workers
	watches func() bool   // ends the watch for the end of the context
	ended   chan struct{} // closed once the end of the context was seen to
}

// take takes the terminal; it is given back when the context ends.
func (a *attached) take(ctx context.Context, c *Session, in, out *os.File) error {
	var err error
	if a.keys, err = cancelreader.NewReader(in); err != nil {
		return fmt.Errorf("reading from the terminal: %w", err)
	}
	if a.mine, err = c.take(in, out, a.end); err != nil {
		return err
	}
	a.watches = context.AfterFunc(ctx, func() {
		defer close(a.ended)
		a.keys.Cancel() // no key that is meant for the prompt is read
		a.mine.giveBack(false)
		if errors.Is(context.Cause(ctx), errLeft) {
			ui.Say(c.stderr, "left the shell: ending what runs in it")
		}
	})
	return nil
}

// forward sends keys and sizes to the tool until the context ends, which it does when nothing
// is typed or written for too long.
func (a *attached) forward(ctx context.Context, s *nodeSession, size probe.Size, changes <-chan struct{},
	out *os.File) {
	a.idle = time.AfterFunc(a.limit, func() { a.end(prompt.ErrIdle) })
	session, id := s.session, s.asked // s lets go of a session that is lost
	t := &typed{more: make(chan struct{}, 1)}
	a.typing.Go(func() { t.read(ctx, a.keys, func() { a.idle.Reset(a.limit) }, a.end) })
	a.typing.Go(func() { t.send(ctx, session, id, size, changes, out) })
}

// release gives the terminal back, and returns once nothing reads from it any more.
func (a *attached) release(outcome probe.Result) {
	if !a.watches() {
		<-a.ended
	}
	a.end(nil)
	if a.mine != nil {
		_, itself := outcome.Facts.Num(tools.FactExit)
		a.mine.giveBack(itself)
		a.idle.Stop()
		a.keys.Cancel()
		a.typing.Wait()
	}
	if a.keys != nil {
		_ = a.keys.Close()
	}
}

// typed is what was typed and is not sent yet. Reading never waits for the line, so that
// the user can leave on one that is dead.
type typed struct {
	mu   sync.Mutex
	kept []byte
	more chan struct{}
}

// mostTyped bounds what waits for the line.
const mostTyped = 1 << 20

// read takes every key until ctx ends, the terminal is gone, or the user leaves.
func (t *typed) read(ctx context.Context, keys io.Reader, heard func(), end func(error)) {
	b := make([]byte, 1024)
	out := wayOut{atStart: true}
	for {
		n, err := keys.Read(b)
		if n > 0 {
			heard()
			pass, left := out.of(b[:n])
			t.mu.Lock()
			if len(t.kept) < mostTyped {
				t.kept = append(t.kept, pass...)
			}
			t.mu.Unlock()
			select {
			case t.more <- struct{}{}:
			default:
			}
			if left {
				end(errLeft)
				return
			}
		}
		if err != nil {
			if ctx.Err() == nil {
				end(fmt.Errorf("reading from the terminal: %w", err))
			}
			return
		}
	}
}

// send hands on what is typed, and each new size of the terminal. What goes into a line
// that is cut may be lost; the shell is not. So the size goes again with every key.
func (t *typed) send(ctx context.Context, session *injector.Session, id int64, sent probe.Size,
	changes <-chan struct{}, out *os.File) {
	for {
		now, known := sizeOf(out)
		if !known {
			now = sent
		}
		t.mu.Lock()
		keys := t.kept
		t.kept = nil
		t.mu.Unlock()
		if len(keys) > 0 || now != sent {
			if session.Type(ctx, id, keys, now) == nil {
				sent = now
			}
		}
		var again <-chan time.Time
		if now != sent {
			again = time.After(time.Second)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.more:
		case <-changes:
		case <-again:
		}
	}
}

// wayOut finds what the user types for this program and not for the shell. The fingers
// know it from ssh: Enter ~ . leaves, and Enter ~ ~ is one ~.
type wayOut struct {
	atStart bool // of a line
	tilde   bool // there was one, and what follows tells what it means
}

// of is what of some keys is for the shell, up to those that leave it.
func (w *wayOut) of(keys []byte) (pass []byte, left bool) {
	for _, k := range keys {
		switch {
		case w.tilde && k == '.':
			return pass, true
		case w.tilde && k == '~':
			w.tilde = false
		case w.tilde:
			pass = append(pass, '~')
			w.tilde = false
		case w.atStart && k == '~':
			w.atStart, w.tilde = false, true
			continue
		}
		pass = append(pass, k)
		w.atStart = k == '\r' || k == '\n'
	}
	return pass, false
}

// sizeOf is a terminal's size.
func sizeOf(out *os.File) (size probe.Size, known bool) {
	now := term.TTY{Out: out}.GetSize()
	switch {
	case now == nil:
		return probe.Size{}, false
	case now.Width == 0 || now.Height == 0: // of one that has none, such as a serial line
		return probe.Size{Rows: 24, Cols: 80}, true
	}
	return probe.Size{Rows: now.Height, Cols: now.Width}, true
}

// resizes returns a channel that receives after each change of the terminal's size. kubectl never closes its queue of
// sizes, so one goroutine reads it for every shell of the session.
func (c *Session) resizes(out *os.File) <-chan struct{} {
	if c.resized != nil {
		return c.resized
	}
	c.resized = make(chan struct{}, 1)
	sizes := (&term.TTY{Out: out}).MonitorSize()
	if sizes == nil { // no terminal
		return c.resized
	}
	probe.Detach(func() error {
		for sizes.Next() != nil {
			select {
			case c.resized <- struct{}{}:
			default:
			}
		}
		return nil
	}, func(err error) { c.client.Note("the shell no longer learns of the terminal's new sizes: %v", err) })
	return c.resized
}

// rawTerminal is the user's terminal while a tool has it to itself.
type rawTerminal struct {
	cooked func() // makes of keys lines again
	plain  func() // makes the console not understand what steers it
	forget func()
	once   sync.Once

	mu    sync.Mutex
	out   io.Writer
	over  bool
	tail  []byte // of what was written
	other bool   // it is on its other screen
}

// take puts the terminal in raw mode, in which every key is read as it is, until the terminal is given back or a signal
// arrives. kubectl restores it on each signal that could end the program, SIGQUIT included, and end is called after
// that: kubectl never calls the final function of a parent handler.
func (c *Session) take(in, out *os.File, end func(error)) (*rawTerminal, error) {
	raw, given := make(chan struct{}), make(chan struct{})
	tty := term.TTY{In: in, Raw: true, Parent: interrupt.New(func(os.Signal) {}, func() { end(errSignal) })}
	restored := probe.Async(func() error {
		return tty.Safe(func() error {
			close(raw)
			<-given
			return nil
		})
	})
	select {
	case <-raw:
	case err := <-restored:
		return nil, fmt.Errorf("taking the terminal: %w", err)
	}
	ui.SetRaw(true)
	t := &rawTerminal{out: out, plain: steerable(out), cooked: func() {
		ui.SetRaw(false)
		close(given)
		if err := <-restored; err != nil {
			ui.Say(c.stderr, "restoring the terminal: %v", err)
		}
	}}
	t.forget = c.interrupts.AtEnd(func() { t.giveBack(false) })
	return t, nil
}

// Write shows what the tool writes, while the terminal is its own.
func (t *rawTerminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return len(b), nil
	}
	t.tail = append(t.tail, b...)
	if all := otherScreen.FindAll(t.tail, -1); len(all) > 0 {
		t.other = bytes.HasSuffix(all[len(all)-1], []byte("h"))
	}
	t.tail = slices.Clone(t.tail[max(0, len(t.tail)-len("\x1b[?1049")):])
	return t.out.Write(b)
}

// otherScreen is what takes a terminal to its other screen, and back.
var otherScreen = regexp.MustCompile(`\x1b\[\?(1049|1047|47)[hl]`)

// fromOther leaves the other screen. It is for a terminal that is there: on any other it
// takes the cursor to where that was the last time.
const fromOther = "\x1b[?1049l"

// unmade undoes what else programs make of a terminal, and undo when they end in peace: a
// hidden cursor, pastes in brackets, reports of the mouse and of focus, keys of another
// mode, colours, and a part of the screen that alone scrolls.
const unmade = "\x1b[?25h\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?1l\x1b>\x1b[0m\x1b7\x1b[r\x1b8\r\n"

// giveBack makes the terminal what it was, also where the tool ended in the middle of
// what it did there.
func (t *rawTerminal) giveBack(itself bool) {
	t.once.Do(func() {
		t.cooked()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.over = true
		if t.other && !itself {
			_, _ = io.WriteString(t.out, fromOther)
		}
		if !itself {
			_, _ = io.WriteString(t.out, unmade)
		}
		t.plain()
		t.forget()
	})
}
