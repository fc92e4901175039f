package prompt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/peterh/liner"
	"golang.org/x/term"
)

// ErrDropped means that the user discarded the line with Ctrl-C.
var ErrDropped = errors.New("dropped")

// ErrIdle means that there was no input for too long.
var ErrIdle = errors.New("no input")

// Editor reads lines from the terminal on stdin. If the terminal supports it, there is editing and a history. Otherwise
// it reads plain lines. While it is not reading a line, the terminal is in its normal mode.
type Editor struct {
	prompts io.Writer    // receives the prompts of a plain terminal
	line    *liner.State // nil = plain lines
	plain   *bufio.Reader
	keys    *keys
	usual   liner.ModeApplier // nil = unknown
	editing liner.ModeApplier
	over    func()
	lost    bool // further input is not possible

	mu      sync.Mutex
	reading bool
}

// NewEditor returns an Editor. If stdout is not a terminal, or is a plain terminal, prompts are written to the writer.
func NewEditor(prompts io.Writer, terminal bool) *Editor {
	e := &Editor{prompts: prompts}
	stdin := os.Stdin
	in := stdin
	if k, out, err := watchKeys(); err == nil {
		e.keys, in = k, out
	}
	if mode, err := liner.TerminalMode(); err == nil {
		e.usual = mode
	}
	if !terminal || !liner.TerminalSupported() {
		e.plain = bufio.NewReader(in)
	} else {
		os.Stdin = in // liner uses os.Stdin only here
		e.line = liner.NewLiner()
		os.Stdin = stdin
		e.line.SetCtrlCAborts(true)
		e.line.SetTabCompletionStyle(liner.TabPrints)
		if mode, err := liner.TerminalMode(); err == nil {
			e.editing = mode
		}
	}
	e.over = continued(func() {
		if e.busy() && e.editing != nil {
			_ = e.editing.ApplyMode()
			redraw()
		}
	})
	e.Restore()
	return e
}

// Restore restores the terminal's normal mode. Any goroutine may call it.
func (e *Editor) Restore() {
	if e.usual != nil {
		_ = e.usual.ApplyMode()
	}
}

// Close restores the terminal and ends the Editor.
func (e *Editor) Close() {
	e.over()
	if e.keys != nil {
		e.keys.close()
	}
	if e.line != nil {
		_ = e.line.Close()
	}
	e.Restore()
}

func (e *Editor) busy() bool { e.mu.Lock(); defer e.mu.Unlock(); return e.reading }

func (e *Editor) set(reading bool) { e.mu.Lock(); defer e.mu.Unlock(); e.reading = reading }

// Remember adds a line to the history, which the arrow keys show.
func (e *Editor) Remember(line string) {
	if e.line != nil {
		e.line.AppendHistory(line)
	}
}

// ending is the time limit for liner to return from its prompt.
const ending = 200 * time.Millisecond

// typedLine is the result of reading one line. broke is the value of a panic.
type typedLine struct {
	text  string
	err   error
	broke any
}

// Read reads one line. Its errors are io.EOF (terminal closed), ErrDropped (line discarded), ErrIdle (no input for too
// long), and the cause of ctx.
func (e *Editor) Read(ctx context.Context, prompt string, idle time.Duration,
	complete liner.WordCompleter) (string, error) {
	if e.lost {
		return "", io.EOF
	}
	if e.editing != nil {
		_ = e.editing.ApplyMode()
		e.line.SetWordCompleter(complete)
	}
	e.set(true)
	defer func() {
		e.set(false)
		e.Restore()
	}()
	var typed chan struct{}
	if e.keys != nil {
		typed = e.keys.typed
		e.keys.start()
		defer e.keys.stop()
	}
	if idle == 0 {
		idle = math.MaxInt64 // never
	}
	clock := time.NewTimer(idle)
	defer clock.Stop()
	read := e.begin(prompt)
	for {
		select {
		case l := <-read:
			if l.broke != nil {
				e.Close()
				panic(l.broke)
			}
			return l.text, l.err
		case <-typed:
			clock.Reset(idle)
		case <-clock.C:
			return "", e.abandon(read, ErrIdle)
		case <-ctx.Done():
			return "", e.abandon(read, context.Cause(ctx))
		}
	}
}

// begin reads a line in the background. It passes a panic to the channel's reader, which first restores the terminal.
func (e *Editor) begin(prompt string) <-chan typedLine {
	read := make(chan typedLine, 1)
	go func() {
		var l typedLine
		defer func() {
			l.broke = recover()
			read <- l
		}()
		l.text, l.err = e.prompt(prompt)
	}()
	return read
}

// abandon permanently stops reading the line, and returns why.
func (e *Editor) abandon(read <-chan typedLine, why error) error {
	e.lost = true
	if e.keys != nil {
		e.keys.close()
		select {
		case <-read:
		case <-time.After(ending):
		}
	}
	fmt.Fprintln(e.prompts)
	return why
}

// drop is the input that Drop sends: Ctrl-C for liner, and a newline for a plain reader.
const drop = "\x03\n"

// Drop discards the current line. It is called if Ctrl-C arrived as a signal.
func (e *Editor) Drop() {
	if e.keys != nil && e.busy() {
		e.keys.press(drop)
	}
}

func (e *Editor) prompt(prompt string) (string, error) {
	if e.line == nil {
		fmt.Fprint(e.prompts, prompt)
		text, err := e.plain.ReadString('\n')
		switch {
		case err != nil && text == "":
			return "", io.EOF
		case strings.HasPrefix(text, drop[:1]):
			fmt.Fprintln(e.prompts)
			return "", ErrDropped
		}
		return strings.TrimRight(text, "\r\n"), nil
	}
	text, err := e.line.Prompt(prompt)
	switch {
	case errors.Is(err, liner.ErrPromptAborted), strings.HasPrefix(text, drop[:1]):
		return "", ErrDropped
	case errors.Is(err, io.EOF):
		fmt.Fprintln(e.prompts)
		return "", io.EOF
	case err != nil:
		return "", fmt.Errorf("reading from the terminal: %w", err)
	}
	return text, nil
}

// Beside returns a writer to w for messages that may arrive while the user types a line. The line is redrawn below the
// messages. Messages wider than the terminal are wrapped between words.
func (e *Editor) Beside(w io.Writer) io.Writer { return &beside{e, w} }

type beside struct {
	e *Editor
	w io.Writer
}

// Unwrap returns the underlying writer.
func (b *beside) Unwrap() io.Writer { return b.w }

func (b *beside) Write(text []byte) (int, error) {
	folded := []byte(fold(string(text), columns(b.w)))
	if f, ok := Bare(b.w).(*os.File); b.e.line == nil || !b.e.busy() || ok && !term.IsTerminal(int(f.Fd())) {
		if _, err := b.w.Write(folded); err != nil {
			return 0, err
		}
		return len(text), nil
	}
	// Go to the first column and clear the line (ECMA-48: CR, EL).
	if _, err := b.w.Write(append([]byte("\r\x1b[K"), folded...)); err != nil {
		return 0, err
	}
	redraw()
	return len(text), nil
}
