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

// PipeError reports that a local command after a | did not exit with 0.
type PipeError struct {
	Command string
	Code    int
}

func (e PipeError) Error() string {
	return fmt.Sprintf("%s exited with code %d", e.Command, e.Code)
}

// Bare returns the innermost writer. Local programs and others that need the terminal itself use it.
func Bare(w io.Writer) io.Writer {
	for {
		over, ok := w.(interface{ Unwrap() io.Writer })
		if !ok {
			return w
		}
		w = over.Unwrap()
	}
}

// lingering is the time limit for a local command after a | to exit when the session is over.
const lingering = 2 * time.Second

// piped runs a command and pipes its output to a local command. If the local command exits first, the command is done.
// The local command also receives a typed Ctrl-C.
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
	errPipe := errors.New("the pipe is closed")
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
	case errors.As(err, &exit): // a signal, such as Ctrl-C
		err = PipeError{l.Pipe, 1}
	case err != nil:
		err = fmt.Errorf("running %s: %w", l.Pipe, err)
	}
	return errors.Join(said, err)
}
