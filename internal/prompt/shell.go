// Package prompt is an interactive prompt for commands.
//
//	terminal -> Editor: editing, history, Tab -> Parse: lines, quotes, pipes -> Command.Run -> Out, or a local pipe
//	script   -> Parse, and Check of every command before the first one runs -> the same
//
// Shell is the entry point: call Interact for a terminal, and Script for a script. However a command ends, Shell
// restores the terminal. It has no commands except help, and does not depend on nodes or
// clusters: package session defines the commands.
package prompt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Shell is a prompt and its commands.
type Shell struct {
	Commands []*Command
	Out      io.Writer
	ErrOut   io.Writer
	Terminal bool          // Out is a terminal
	Editor   *Editor       // reads the typed lines; nil = only scripts run
	Prompt   func() string // returns the prompt before the input
	Idle     time.Duration // ends a session after this time without input
	Read     func(string)  // receives each typed line before it is parsed; may be nil
	Typed    func(Line)    // receives each command before it runs; may be nil
	// Failed prints a command's error on a terminal. It is never called with nil. An invalid
	// line has no words.
	Failed func(Line, error)
	// After a call of Interrupts, Ctrl-C calls pressed, until back is called.
	Interrupts func(pressed func()) (back func())

	mu          sync.Mutex
	interrupted func() // current effect of Ctrl-C; nil = nothing, because it came too late
}

// interrupt handles a Ctrl-C.
func (s *Shell) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.interrupted != nil {
		s.interrupted()
	}
}

// After a call of onInterrupt, Ctrl-C calls f. Once the returned function is called, Ctrl-C does nothing.
func (s *Shell) onInterrupt(f func()) (over func()) {
	set := func(f func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.interrupted = f
	}
	set(f)
	return func() { set(nil) }
}

// Find returns a line's command. Its error is a UsageError.
func (s *Shell) Find(l Line) (*Command, error) {
	c := s.named(l.Words[0])
	if c == nil {
		if m := meant(s.names(), l.Words[0]); m != "" {
			return nil, Usagef("unknown command %q: did you mean %q? 'help' lists them", l.Words[0], m)
		}
		return nil, Usagef("unknown command %q; 'help' lists them", l.Words[0])
	}
	switch {
	case c.Check == nil && len(l.Words) > 1:
		return nil, Usagef("%s takes no arguments", c.Name)
	case c.takesTerminal(l.Words[1:]) && l.Pipe != "":
		return nil, Usagef("%s takes over the terminal, so it cannot be piped", c.Name)
	case c.Check != nil:
		if err := c.Check(l.Words[1:]); err != nil {
			return nil, UsageError{err}
		}
	}
	return c, nil
}

// Script runs commands without a prompt. If any command is invalid, it does not run any. It passes every error to each,
// and stops only at ErrExit or when ctx ends.
func (s *Shell) Script(ctx context.Context, text string, each func(Line, error)) error {
	lines, err := s.checked(text)
	if err != nil {
		return err
	}
	for _, l := range lines {
		err := s.run(ctx, ctx, l)
		if errors.Is(err, ErrExit) || ctx.Err() != nil {
			break
		}
		if err != nil {
			each(l, err)
		}
	}
	return context.Cause(ctx)
}

// Check returns the errors for which Script would not run.
func (s *Shell) Check(text string) error {
	_, err := s.checked(text)
	return err
}

func (s *Shell) checked(text string) ([]Line, error) {
	lines, at, err := parse(text)
	if err != nil {
		return nil, UsageError{err}
	}
	for i, l := range lines {
		c, err := s.Find(l)
		if err == nil && c.takesTerminal(l.Words[1:]) {
			err = fmt.Errorf("%s needs a terminal: it cannot be used in a script", c.Name)
		}
		if err != nil {
			return nil, UsageError{inLine(text, at[i], fmt.Errorf("%s: %w", l.Text, err))}
		}
	}
	return lines, nil
}

// run runs one command, and pipes its output if requested. The pipe's local command
// is stopped when the session ends.
func (s *Shell) run(ctx, session context.Context, l Line) error {
	c, err := s.Find(l)
	if err != nil {
		return err
	}
	if s.Typed != nil {
		s.Typed(l)
	}
	if l.Pipe != "" {
		return s.piped(ctx, session, c, l)
	}
	call := &Call{Args: l.Words[1:], Out: s.Out, Terminal: s.Terminal}
	if !s.Terminal || c.Raw || c.Terminal {
		return c.Run(ctx, call)
	}
	folded := &folder{to: s.Out, width: columns(s.Out)}
	call.Out = folded
	err = c.Run(ctx, call)
	if unwritten := folded.flush(); err == nil {
		err = unwritten
	}
	return err
}

// Interact reads commands from the terminal until it is closed, the user types exit, ctx ends,
// or there is no input for too long (ErrIdle). It also handles Ctrl-C.
func (s *Shell) Interact(ctx context.Context) error {
	defer s.Interrupts(s.interrupt)()
	for {
		over := s.onInterrupt(s.Editor.Drop)
		text, err := s.Editor.Read(ctx, s.Prompt(), s.Idle, s.completer(ctx))
		over()
		switch {
		case errors.Is(err, ErrDropped):
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		if s.Read != nil {
			s.Read(text)
		}
		s.Editor.Remember(text)
		lines, err := Parse(text)
		if err != nil {
			s.Failed(Line{}, UsageError{err})
			continue
		}
		for _, l := range lines {
			stopped, err := s.attended(ctx, l)
			if errors.Is(err, ErrExit) {
				return nil
			}
			if errors.Is(err, ErrIdle) {
				return err
			}
			if err != nil && (!stopped || !errors.Is(err, context.Canceled)) {
				s.Failed(l, err)
			}
			if stopped || ctx.Err() != nil {
				break
			}
		}
	}
}

// attended runs one command interactively: Ctrl-C stops it, and a second Ctrl-C stops waiting
// for it.
func (s *Shell) attended(ctx context.Context, l Line) (stopped bool, err error) {
	abandoned := make(chan struct{})
	one, cancel := context.WithCancel(context.WithValue(ctx, abandonedKey{}, (<-chan struct{})(abandoned)))
	defer cancel()
	pressed := 0
	over := s.onInterrupt(func() {
		switch pressed++; pressed {
		case 1:
			if s.Terminal {
				fmt.Fprintln(s.ErrOut) // end the line with the ^C
			}
			cancel()
		case 2:
			close(abandoned)
		}
	})
	err = s.run(one, ctx, l)
	over()
	s.Editor.Restore() // the command or its pipe may have changed the terminal's mode
	return pressed > 0, err
}

type abandonedKey struct{}

// Abandoned returns a channel that is closed when the user stops waiting for a stopped command,
// or nil if there is no user.
func Abandoned(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(abandonedKey{}).(<-chan struct{})
	return c
}
