package prompt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// PipeError is a command of the user's own machine, behind a |, that did not end with 0.
type PipeError struct {
	Command string
	Code    int
}

func (e PipeError) Error() string {
	return fmt.Sprintf("%s ended with exit code %d", e.Command, e.Code)
}

// Bare is what a writer leads to in the end: what a program of the user's own machine is given,
// or whatever is to have a terminal as such.
func Bare(w io.Writer) io.Writer {
	for {
		over, ok := w.(interface{ Unwrap() io.Writer })
		if !ok {
			return w
		}
		w = over.Unwrap()
	}
}

// lingering is how long a command behind a | may take to end once the session is over.
const lingering = 2 * time.Second

// piped runs a command whose output goes to one of the user's machine. Where that ends
// first, the command has done its work. What was typed of Ctrl-C that one has had too.
func (s *Shell) piped(ctx, session context.Context, c *Command, l Line) error {
	from, into, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("starting %s: %w", l.Pipe, err)
	}
	defer into.Close()
	pipe := local(session, l.Pipe)
	pipe.Stdin, pipe.Stdout, pipe.Stderr = from, Bare(s.Out), Bare(s.ErrOut)
	pipe.WaitDelay = lingering
	err = pipe.Start()
	from.Close()
	if err != nil {
		return fmt.Errorf("starting %s: %w", l.Pipe, err)
	}
	ctx, enough := context.WithCancelCause(ctx)
	defer enough(nil)
	errPipe := errors.New("the pipe has ended")
	ended := make(chan error, 1)
	go func() {
		err := pipe.Wait()
		enough(errPipe)
		ended <- err
	}()
	said := c.Run(ctx, &Call{Args: l.Words[1:], Out: into})
	first := errors.Is(context.Cause(ctx), errPipe) || closedEarly(said)
	into.Close()
	err = <-ended
	if first {
		said = nil
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		err = PipeError{l.Pipe, exit.ExitCode()}
	case errors.As(err, &exit): // a signal, like Ctrl-C
		err = PipeError{l.Pipe, 1}
	case err != nil:
		err = fmt.Errorf("running %s: %w", l.Pipe, err)
	}
	return errors.Join(said, err)
}
