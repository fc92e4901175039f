package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

const whyDoc = `Names the causes from the latest answer to each check of this session, including answers of
baseline nodes. It shows the number and age of the answers. A node is healthy only if
all checks of 'run' have answers; otherwise a node without bad answers is incomplete (exit
code 5).`

func (c *Session) whyCommand() *prompt.Command {
	return &prompt.Command{Name: "why", Short: "name the causes from all answers so far", Doc: whyDoc, Run: c.why}
}

// concluded shows the latest answers about a node and the conclusion. The exit code is that of the verdict.
func (s *nodeSession) concluded(sink report.Sink) (ui.Exit, error) {
	conclusion, err := examine.Replay(s.answers.Run(), sink)
	if err != nil {
		return 0, err
	}
	took := s.answers.Took()
	conclusion.Elapsed = &took
	code := ui.Exit(report.ExitHealthy)
	if err := conclusion.Conclude(); err != nil && !errors.As(err, &code) {
		return 0, err
	}
	return code, nil
}

// tableTo returns a sink that shows answers in a command's output.
func (c *Session) tableTo(call *prompt.Call) report.Sink {
	var o report.Options
	if call.Terminal {
		o = report.Options{Colour: ui.Colourful(c.stdout), Width: ui.Width(c.stdout)}
	}
	return report.InSession(call.Out, o)
}

// why prints the causes first, then their evidence.
func (c *Session) why(_ context.Context, call *prompt.Call) error {
	s := c.at
	requested := s.answers.Requested()
	known := slices.ContainsFunc(s.answers.Run().Events, func(ev probe.Event) bool {
		return ev.Result != nil &&
			ev.Result.Status == probe.Unknown
	})
	if len(requested) == 0 && !known {
		if _, err := fmt.Fprintf(call.Out, "no check has run on %s so far: 'run' runs all, 'run CHECK...' some\n", s.opts.Node); err != nil {
			return err
		}
		return ui.Exit(report.ExitIncomplete)
	}
	table := c.tableTo(call)
	missing, text, err := s.soFar()
	if err != nil {
		return err
	}
	code, err := s.concluded(report.SinkFunc(func(ev probe.Event) error {
		if ev.Verdict != nil && ev.Verdict.Word == report.WordHealthy && missing {
			v := *ev.Verdict
			v.Word, v.Exit, ev.Verdict = "nothing bad so far", report.ExitIncomplete, &v
		}
		c.mark(s, ev)
		return table.Event(ev)
	}))
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(call.Out, text); err != nil {
		return err
	}
	switch {
	case code == report.ExitHealthy && missing:
		return ui.Exit(report.ExitIncomplete)
	case code != report.ExitHealthy:
		return code
	}
	return nil
}

// soFar describes how many checks have answers, and how old these answers are.
func (s *nodeSession) soFar() (missing bool, text string, err error) {
	run, err := examine.New(s.client, s.asking(nil), nil)
	if err != nil {
		return false, "", err
	}
	requested, answered := s.answers.Requested(), s.answers.Answered()
	all, open, vain := run.Owes(s.snap), 0, 0
	for _, id := range all {
		switch {
		case !slices.Contains(requested, id):
			open++
		case !slices.Contains(answered, id):
			vain++
		}
	}
	text = fmt.Sprintf("answered so far: all %d checks", len(all))
	if known := len(all) - open - vain; known < len(all) {
		text = fmt.Sprintf("answered so far: %d of %d checks", known, len(all))
	}
	if at := s.answers.Oldest(); !at.IsZero() {
		age := time.Since(at)
		text += fmt.Sprintf(", the oldest answer %v ago", age.Round(time.Second))
	}
	if vain > 0 {
		text += fmt.Sprintf("; %d more ran without an answer", vain)
	}
	if open > 0 {
		text += "; 'run' runs the rest"
	}
	return open+vain > 0, text, nil
}
