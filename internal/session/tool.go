package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// tool returns a command for a tool.
func (c *Session) tool(t *probe.Tool) *prompt.Command {
	return &prompt.Command{
		Name: t.Name, Usage: t.Usage, Short: t.Short, Doc: t.Doc, Raw: t == tools.Logs,
		Check: t.Check,
		Run: func(ctx context.Context, call *prompt.Call) error {
			return c.useTool(ctx, call, probe.Call{Tool: t.Name, Args: call.Args})
		},
	}
}

// useTool runs a tool on the node and shows its output.
func (c *Session) useTool(ctx context.Context, call *prompt.Call, what probe.Call) error {
	s, leave := c.at, func() error { return nil }
	if tools.Traces(what) {
		var err error
		if s, leave, err = c.traceNode(ctx, what); err != nil {
			return err
		}
	}
	var wrote []byte
	outcome, err := s.through(ctx, what, call.Out, printable, func(ev probe.Event) {
		if ev.Type == probe.EventOut && len(wrote) < maxRead {
			wrote = append(wrote, bytesOf(ev)...)
		}
		c.record(c.at, ev)
	})
	if err := errors.Join(err, leave()); err != nil {
		return err
	}
	err = c.cameTo(outcome)
	if e, is := errors.AsType[outcomeError](err); is && call.Out == c.stdout {
		e.read = repeats(outcome.Saw, string(wrote))
		return e
	}
	return err
}

// maxRead is the maximum number of bytes of output to keep. This output is needed to find out whether it already showed
// the outcome to the user.
const maxRead = 64 << 10

// repeats reports whether an outcome is a line of the tool's output. In this line, the target may precede the outcome.
func repeats(saw, wrote string) bool {
	_, without, _ := strings.Cut(saw, ": ")
	for line := range strings.Lines(wrote) {
		if line = strings.TrimSpace(line); line == saw || line != "" && line == without {
			return true
		}
	}
	return false
}

// through runs a tool and writes the tool's output to a writer. If a write fails, for example because a pipe is closed,
// it cancels the tool.
func (s *nodeSession) through(ctx context.Context, what probe.Call, to io.Writer, fit func([]byte) []byte,
	each func(probe.Event)) (probe.Result, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var writing error
	show := written(to, &writing, fit)
	outcome, err := s.call(ctx, what, func(ev probe.Event) {
		each(ev)
		if show(ev); writing != nil {
			end()
		}
	})
	if writing != nil {
		return outcome, fmt.Errorf("writing its output: %w", writing)
	}
	return outcome, err
}

// written returns a function that writes a tool's output, converted by fit. failed receives the first error.
func written(to io.Writer, failed *error, fit func([]byte) []byte) func(probe.Event) {
	return func(ev probe.Event) {
		if ev.Type != probe.EventOut || *failed != nil {
			return
		}
		_, *failed = to.Write(fit(bytesOf(ev)))
	}
}

// printable removes control characters from a node's text. It also protects a terminal at the other end of a pipe.
func printable(b []byte) []byte {
	return []byte(probe.Plain(string(b)))
}

// cameTo returns the error for a tool with a bad result.
func (c *Session) cameTo(outcome probe.Result) error {
	switch outcome.Status {
	case probe.OK, probe.Info, probe.Warn:
		return nil
	case probe.Fail:
		return outcomeError{exit: ui.Exit(report.ExitFault), saw: outcome.Saw}
	}
	return outcomeError{exit: ui.Exit(report.ExitIncomplete), saw: outcome.Saw}
}
