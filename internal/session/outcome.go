package session

import (
	"errors"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
)

// usage makes the shell's mistakes of typing the program's.
func usage(err error) error {
	if errors.As(err, new(prompt.UsageError)) {
		return ui.BadUsage("%w", err)
	}
	return err
}

// outcomeError is a tool's answer that is not a good one.
type outcomeError struct {
	exit ui.Exit
	saw  string
	read bool // it is on the terminal already, in what the tool wrote
}

func (e outcomeError) Error() string { return e.saw }

// Unwrap is the exit code.
func (e outcomeError) Unwrap() error { return e.exit }

// codeOf is the exit code of what a command came to, of all it came to the one that
// weighs most.
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

// failed says what a command came to that has not said so itself, and in a script which.
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
	case errors.As(err, new(prompt.PipeError)): // which speaks for itself
		return
	case errors.As(err, &code):
		if which != "" {
			ui.Say(c.stderr, "%s%s", which, c.bad.cameTo(code))
		}
		return
	}
	ui.Say(c.stderr, "%s%s", which, cluster.Explain(err))
}
