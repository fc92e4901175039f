package session

import (
	"errors"

	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
)

// usage turns a typing mistake in the shell into a usage error of the program.
func usage(err error) error {
	if errors.As(err, new(prompt.UsageError)) {
		return ui.BadUsage("%w", err)
	}
	return err
}

// outcomeError is the bad result of a tool.
type outcomeError struct {
	exit ui.Exit
	saw  string
	read bool // already on the terminal, as part of the tool's output
}

func (e outcomeError) Error() string { return e.saw }

// Unwrap returns the exit code.
func (e outcomeError) Unwrap() error { return e.exit }

// codeOf returns the exit code of a command's error. If there are several errors, it returns the worst code.
func codeOf(err error) int {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		worst := report.ExitHealthy
		for _, err := range several.Unwrap() {
			worst = examine.WorseExit(worst, codeOf(err))
		}
		return worst
	}
	var code ui.Exit
	var pipe prompt.PipeError
	switch {
	case err == nil:
		return report.ExitHealthy
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &pipe):
		return pipe.Code
	case errors.As(err, new(prompt.UsageError)), errors.As(err, new(ui.UsageError)):
		return report.ExitUsage
	}
	return report.ExitTool
}

// failed prints a command's error, unless the error is already printed. In a script, which names the command.
func (c *Session) failed(which string, err error) {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range several.Unwrap() {
			c.failed(which, err)
		}
		return
	}
	var code ui.Exit
	outcome, said := errors.AsType[outcomeError](err)
	switch {
	case said && outcome.read:
		return
	case said:
	case errors.As(err, new(prompt.PipeError)): // the local command printed its own error
		return
	case errors.As(err, &code):
		if which != "" {
			ui.Say(c.stderr, "%s%s", which, c.bad.cameTo(code))
		}
		return
	}
	ui.Say(c.stderr, "%s%s", which, apierror.Explain(err))
}
