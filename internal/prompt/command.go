package prompt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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
	// are the arguments in front of it. What follows a tab describes a word: it is listed
	// with it, and not typed.
	Complete func(ctx context.Context, before []string) []string
	// Terminal says that it takes the user's terminal for itself.
	Terminal bool
	// Raw says that its lines are shown as they are, also those wider than the terminal.
	Raw bool
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

// UsageError is a mistake in what was typed.
type UsageError struct{ error }

// Usagef makes a UsageError, formatted as by fmt.Errorf.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Unwrap is what was wrong.
func (e UsageError) Unwrap() error { return e.error }

// ErrExit ends the session, as a command's error.
var ErrExit = errors.New("exit")

// habits are what fingers know from other prompts.
var habits = map[string]string{"quit": "exit", "q": "exit", "?": "help"}

func (s *Shell) names() []string {
	var out []string
	for _, c := range s.Commands {
		out = append(out, c.Name)
	}
	return out
}

// named is the command of a name, nil when there is none.
func (s *Shell) named(name string) *Command {
	if own := habits[name]; own != "" {
		name = own
	}
	if i := slices.IndexFunc(s.Commands, func(c *Command) bool { return c.Name == name }); i >= 0 {
		return s.Commands[i]
	}
	return nil
}
