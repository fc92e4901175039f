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

// errLeft means that the user left the shell, even if programs still run in it.
var errLeft = errors.New("left the shell")

// errSignal means that a signal has restored the terminal of a shell.
var errSignal = errors.New("the shell was ended by a signal")

// onTerminal runs a tool that controls the user's terminal. Once the tool has started, every key goes to the tool,
// including Ctrl-C. Before that, Ctrl-C cancels the tool like any other tool. However the tool ends, the terminal's
// mode is restored immediately.
func (c *Session) onTerminal(ctx context.Context, s *nodeSession, what probe.Call, in, out *os.File,
	fit func([]byte) []byte) (probe.Result, error) {
	changes := c.resizes(out) // do this first, otherwise a change could be missed
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
		return outcome, fmt.Errorf("left the shell, but its end was not confirmed: %w", err)
	case err != nil && a.mine != nil && outcome.Status == "":
		return outcome, fmt.Errorf("lost the shell: %w", err)
	}
	return outcome, err
}

// attached is the user's terminal while a tool controls it.
type attached struct {
	limit   time.Duration // maximum time without input and output
	end     context.CancelCauseFunc
	idle    *time.Timer  // nil = the tool has not started
	mine    *rawTerminal // nil = the prompt still has the terminal
	keys    cancelreader.CancelReader
	typing  probe.Workers
	watches func() bool   // cancels the watch for the end of the context
	ended   chan struct{} // closed once the end of the context has been handled
}

// take takes over the terminal. When the context ends, it returns the terminal.
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
		a.keys.Cancel() // do not read keys that are meant for the prompt
		a.mine.giveBack(false)
		if errors.Is(context.Cause(ctx), errLeft) {
			ui.Say(c.stderr, "left the shell: ending the programs in it")
		}
	})
	return nil
}

// forward sends keys and sizes to the tool until the context ends. If there is no input or output for too long, it ends
// the context.
func (a *attached) forward(ctx context.Context, s *nodeSession, size probe.Size, changes <-chan struct{},
	out *os.File) {
	a.idle = time.AfterFunc(a.limit, func() { a.end(prompt.ErrIdle) })
	session, id := s.session, s.lastID // keep these, because s may drop a lost session
	t := &typed{more: make(chan struct{}, 1)}
	a.typing.Go(func() { t.read(ctx, a.keys, func() { a.idle.Reset(a.limit) }, a.end) })
	a.typing.Go(func() { t.send(ctx, session, id, size, changes, out) })
}

// release returns the terminal, and waits until nothing reads from it.
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

// typed buffers keys that have not been sent yet. Reading never waits for the connection, so the user can leave a shell
// even if its connection is dead.
type typed struct {
	mu   sync.Mutex
	kept []byte
	more chan struct{}
}

// maxTyped is the maximum size of the buffer in bytes.
const maxTyped = 1 << 20

// read reads every key until ctx ends, the terminal closes, or the user leaves.
func (t *typed) read(ctx context.Context, keys io.Reader, heard func(), end func(error)) {
	b := make([]byte, 1024)
	out := wayOut{atStart: true}
	for {
		n, err := keys.Read(b)
		if n > 0 {
			heard()
			pass, left := out.of(b[:n])
			t.mu.Lock()
			if len(t.kept) < maxTyped {
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

// send sends keys and each new size of the terminal. If data is sent into a broken connection, it may be lost although
// the shell survives. So send repeats the size with every key.
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

// wayOut finds the keys that are for this program instead of the shell. As in ssh, Enter ~ . leaves the shell, and
// Enter ~ ~ sends one ~.
type wayOut struct {
	atStart bool // at the start of a line
	tilde   bool // after a ~; the next key decides
}

// of returns the keys that are for the shell, up to the keys that leave the shell.
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

// sizeOf returns a terminal's size.
func sizeOf(out *os.File) (size probe.Size, known bool) {
	now := term.TTY{Out: out}.GetSize()
	switch {
	case now == nil:
		return probe.Size{}, false
	case now.Width == 0 || now.Height == 0: // a terminal without a size, such as a serial line
		return probe.Size{Rows: 24, Cols: 80}, true
	}
	return probe.Size{Rows: now.Height, Cols: now.Width}, true
}

// resizes returns a channel that receives an item after each change of the terminal's size. kubectl never closes its
// queue of sizes, so one goroutine reads it for every shell of the session.
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
	}, func(err error) { c.client.Note("the shell no longer receives the terminal's new sizes: %v", err) })
	return c.resized
}

// rawTerminal is the user's terminal in raw mode, while a tool controls it.
type rawTerminal struct {
	cooked func() // restores line mode
	plain  func() // turns off the console's escape sequences
	forget func()
	once   sync.Once

	mu    sync.Mutex
	out   io.Writer
	over  bool
	tail  []byte // the end of the output so far
	other bool   // the alternate screen is active
}

// take puts the terminal into raw mode until the terminal is returned or a signal arrives. kubectl restores the
// terminal on each signal that could end the program, including SIGQUIT, and then calls end. It never calls the final
// function of a parent handler.
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
		return nil, fmt.Errorf("switching the terminal to raw mode: %w", err)
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

// Write shows the tool's output, while the tool controls the terminal.
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

// otherScreen matches the escape sequences that enter and leave the alternate screen.
var otherScreen = regexp.MustCompile(`\x1b\[\?(1049|1047|47)[hl]`)

// fromOther leaves the alternate screen. Use it only if the alternate screen is active: otherwise it moves the cursor
// to an old position.
const fromOther = "\x1b[?1049l"

// unmade resets terminal modes that are still set after a program did not exit normally: a hidden cursor, bracketed
// paste, mouse and focus reports, another keypad mode, colours, and a scroll region.
const unmade = "\x1b[?25h\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?1l\x1b>\x1b[0m\x1b7\x1b[r\x1b8\r\n"

// giveBack restores the terminal, even if the tool ended in the middle of its output.
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
