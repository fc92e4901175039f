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

// ErrDropped is a line that the user dropped with Ctrl-C.
var ErrDropped = errors.New("dropped")

// ErrIdle says that nothing was typed for so long that the session ended.
var ErrIdle = errors.New("nothing was typed")

// Editor reads lines from the terminal that is stdin: edited, with a history, where it
// can do that, else plainly. The terminal is in its usual mode whenever no line is read.
type Editor struct {
	prompts io.Writer    // of a plain terminal
	line    *liner.State // nil = plain
	plain   *bufio.Reader
	keys    *keys
	usual   liner.ModeApplier // nil = not known
	editing liner.ModeApplier
	over    func()
	lost    bool // nothing more can be read

	mu      sync.Mutex
	reading bool
}

// NewEditor makes one. Where stdout is no terminal, or it is a plain one, prompts go to
// the writer.
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
		os.Stdin = in // which it takes once, here
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

// Restore gives the terminal its usual mode back, from wherever.
func (e *Editor) Restore() {
	if e.usual != nil {
		_ = e.usual.ApplyMode()
	}
}

// Close ends it. The terminal is as it was.
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

// Remember makes a line one that can be had again with the arrow keys.
func (e *Editor) Remember(line string) {
	if e.line != nil {
		e.line.AppendHistory(line)
	}
}

// ending is how long an editor may take to let go of its prompt.
const ending = 200 * time.Millisecond

// typedLine is what became of one line: broke is what reading it panicked with.
type typedLine struct {
	text  string
	err   error
	broke any
}

// Read reads one line. Its error is io.EOF when the terminal was closed, ErrDropped for
// a line that was dropped, ErrIdle when nothing was typed for so long, and why ctx ended.
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

// begin reads a line in the background. A panic is handed on to the reader of the channel, who
// gives the terminal back.
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

// abandon leaves the line that is being read, and gives back why. Nothing is read any more.
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

// drop is what Drop types: the editor sees a Ctrl-C, and one that reads whole lines a line.
const drop = "\x03\n"

// Drop drops the line that is being read, for a Ctrl-C that came as a signal.
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

// Beside is w for what is said while a line may be being typed, which is shown again
// below it. Lines longer than the terminal is wide are broken between words.
func (e *Editor) Beside(w io.Writer) io.Writer { return &beside{e, w} }

type beside struct {
	e *Editor
	w io.Writer
}

// Unwrap is where it is said.
func (b *beside) Unwrap() io.Writer { return b.w }

func (b *beside) Write(text []byte) (int, error) {
	folded := []byte(fold(string(text), columns(b.w)))
	if f, ok := Bare(b.w).(*os.File); b.e.line == nil || !b.e.busy() || ok && !term.IsTerminal(int(f.Fd())) {
		if _, err := b.w.Write(folded); err != nil {
			return 0, err
		}
		return len(text), nil
	}
	// To the beginning of the line, and clear it (ECMA-48: CR, EL).
	if _, err := b.w.Write(append([]byte("\r\x1b[K"), folded...)); err != nil {
		return 0, err
	}
	redraw()
	return len(text), nil
}
