// Package shell is a prompt for commands: it reads lines from a terminal or a script,
// completes them, runs one command after the other, pipes what they write, and gives
// the terminal back as it was. Of nodes and clusters it knows nothing.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/peterh/liner"
)

// Command is a word that can be typed, and what it does.
type Command struct {
	Name  string
	Usage string // its arguments in one line
	Short string // what it does, in a few words
	Doc   string // what help NAME prints beyond that
	// Check refuses arguments before anything is run; nil = takes none.
	Check func(args []string) error
	Run   func(ctx context.Context, c *Call) error
	// Complete lists what the next word may be, whatever of it is typed already; before
	// are the arguments in front of it.
	Complete func(ctx context.Context, before []string) []string
	// Terminal says that it takes the user's terminal for itself.
	Terminal bool
	// Plain tells that with these arguments it does not, and can be piped and stand in a
	// script; nil = never.
	Plain func(args []string) bool
}

// takesTerminal tells whether a command takes the user's terminal for itself.
func (c *Command) takesTerminal(args []string) bool {
	return c.Terminal && (c.Plain == nil || !c.Plain(args))
}

// Call is one command being run.
type Call struct {
	Args []string
	Out  io.Writer
	// Terminal tells that Out is the user's terminal.
	Terminal bool
}

// UsageError is a mistake of whoever typed it.
type UsageError struct{ error }

// Usagef makes a UsageError, formatted as by fmt.Errorf.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// ErrExit ends the session, as a command's error.
var ErrExit = errors.New("exit")

// ErrIdle says that nobody typed anything for so long that the session ended.
var ErrIdle = errors.New("nothing was typed")

// Shell is a prompt and its commands.
type Shell struct {
	Commands []*Command
	Out      io.Writer
	ErrOut   io.Writer
	Terminal bool          // Out is a terminal
	Prompt   func() string // what stands before what is typed
	Idle     time.Duration // ends a session at whose prompt nobody types for so long
	Typed    func(Line)    // is told of each command before it runs; may be nil
	Failed   func(error)   // says what a command came to, on a terminal; never called with nil
	// Interrupts gives Ctrl-C to whoever takes it, until it is given back.
	Interrupts func(taken func()) (back func())
}

// Find is the command of a line; its error is a UsageError.
func (s *Shell) Find(l Line) (*Command, error) {
	i := slices.IndexFunc(s.Commands, func(c *Command) bool { return c.Name == l.Words[0] })
	if i < 0 {
		return nil, Usagef("unknown command %q; 'help' lists them", l.Words[0])
	}
	c := s.Commands[i]
	switch {
	case c.Check == nil && len(l.Words) > 1:
		return nil, Usagef("%s takes no arguments", c.Name)
	case c.takesTerminal(l.Words[1:]) && l.Pipe != "":
		return nil, Usagef("%s takes the terminal for itself: it cannot be piped", c.Name)
	case c.Check != nil:
		if err := c.Check(l.Words[1:]); err != nil {
			return nil, UsageError{err}
		}
	}
	return c, nil
}

// Script runs commands without a prompt. None is run when one of them is a mistake. Each
// error is given to each; the last of them ends it only if it is ErrExit or ctx is over.
func (s *Shell) Script(ctx context.Context, text string, each func(error)) error {
	lines, err := s.checked(text)
	if err != nil {
		return err
	}
	for _, l := range lines {
		err := s.run(ctx, l)
		if errors.Is(err, ErrExit) || ctx.Err() != nil {
			break
		}
		if err != nil {
			each(err)
		}
	}
	return nil
}

// Check tells what Script would refuse to run.
func (s *Shell) Check(text string) error {
	_, err := s.checked(text)
	return err
}

func (s *Shell) checked(text string) ([]Line, error) {
	lines, err := Parse(text)
	if err != nil {
		return nil, UsageError{err}
	}
	for _, l := range lines {
		c, err := s.Find(l)
		if err != nil {
			return nil, err
		}
		if c.takesTerminal(l.Words[1:]) {
			return nil, Usagef("%s takes a terminal: it cannot be used in a script", c.Name)
		}
	}
	return lines, nil
}

// run runs one command, with its output piped where that is wanted.
func (s *Shell) run(ctx context.Context, l Line) error {
	c, err := s.Find(l)
	if err != nil {
		return err
	}
	if s.Typed != nil {
		s.Typed(l)
	}
	if l.Pipe == "" {
		return c.Run(ctx, &Call{Args: l.Words[1:], Out: s.Out, Terminal: s.Terminal})
	}
	pipe := exec.CommandContext(ctx, "sh", "-c", l.Pipe)
	pipe.Stdout, pipe.Stderr = s.Out, s.ErrOut
	in, err := pipe.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting %s: %w", l.Pipe, err)
	}
	if err := pipe.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", l.Pipe, err)
	}
	err = c.Run(ctx, &Call{Args: l.Words[1:], Out: in})
	_ = in.Close()
	return errors.Join(err, pipe.Wait())
}

// Interact reads commands from the terminal until it is closed, exit is typed, ctx ends,
// or nobody types for too long.
func (s *Shell) Interact(ctx context.Context) error {
	edit := liner.NewLiner()
	defer edit.Close()
	edit.SetCtrlCAborts(true)
	edit.SetTabCompletionStyle(liner.TabPrints)
	for ctx.Err() == nil {
		text, err := edit.Prompt(s.Prompt())
		switch {
		case errors.Is(err, liner.ErrPromptAborted):
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading from the terminal: %w", err)
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		edit.AppendHistory(text)
		lines, err := Parse(text)
		if err != nil {
			s.Failed(err)
			continue
		}
		for _, l := range lines {
			one, cancel := context.WithCancel(ctx)
			back := s.Interrupts(cancel)
			err := s.run(one, l)
			back()
			cancel()
			switch {
			case errors.Is(err, ErrExit):
				return nil
			case errors.Is(err, ErrIdle):
				return err
			case err != nil:
				s.Failed(err)
			}
		}
	}
	return nil
}
