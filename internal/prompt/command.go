package prompt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Command is a command of the prompt.
type Command struct {
	Name  string
	Usage string // the command's arguments, in one line
	Short string // the purpose of the command, in a few words
	Doc   string // further text that 'help NAME' prints
	// Check validates the arguments before any command runs. nil = the command does not take arguments.
	Check func(args []string) error
	Run   func(ctx context.Context, c *Call) error
	// Complete lists the possible next words, whatever part of the word is already typed. before has the arguments before
	// the word. Text after a tab describes a word: it is listed, but not
	// typed.
	Complete func(ctx context.Context, before []string) []string
	// Terminal is set if the command takes over the user's terminal.
	Terminal bool
	// Raw is set if the command's lines are shown unchanged, even if they are wider than the terminal.
	Raw bool
	// Plain reports whether the command, with these arguments, does not take over the terminal. If so, pipes and scripts
	// may use it. nil = it always takes over the terminal.
	Plain func(args []string) bool
}

// takesTerminal reports whether a command takes over the user's terminal.
func (c *Command) takesTerminal(args []string) bool {
	return c.Terminal && (c.Plain == nil || !c.Plain(args))
}

// Call is one run of a command.
type Call struct {
	Args []string
	Out  io.Writer
	// Terminal is set if Out is the user's terminal.
	Terminal bool
}

// UsageError is a mistake in the typed text.
type UsageError struct{ error }

// Usagef returns a UsageError, formatted as by fmt.Errorf.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Unwrap returns the underlying error.
func (e UsageError) Unwrap() error { return e.error }

// ErrExit is the error with which a command ends the session.
var ErrExit = errors.New("exit")

// habits maps commands that people know from other prompts to commands of this prompt.
var habits = map[string]string{"quit": "exit", "q": "exit", "?": "help"}

func (s *Shell) names() []string {
	var out []string
	for _, c := range s.Commands {
		out = append(out, c.Name)
	}
	return out
}

// named returns the command with a name, or nil.
func (s *Shell) named(name string) *Command {
	if own := habits[name]; own != "" {
		name = own
	}
	if i := slices.IndexFunc(s.Commands, func(c *Command) bool { return c.Name == name }); i >= 0 {
		return s.Commands[i]
	}
	return nil
}
