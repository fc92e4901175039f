package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/tools"
)

const watchDoc = `Repeats checks or a tool every two seconds, or at the interval of -n, until Ctrl-C. Shows the
first answers, then answers that appear, disappear, or change their status or text. It ignores
times, ages and counters that change on their own. After a minute without a change, a line shows
that it is still watching. For a tool it compares the result, and the lines that begin with the
same word. A transcript gets the first answers, the changes, and the last answers. A round that
Ctrl-C interrupts does not count.

  watch bgp-session
  watch -n 10 felix
  watch bird show protocols`

// watching has the arguments of watch.
type watching struct {
	every time.Duration
	want  []string    // checks to repeat
	tool  *probe.Tool // a tool to repeat with args, instead of checks
	args  []string
}

// A shorter interval would load the node more than its own work does. A longer interval makes no sense for an
// interactive watch.
const (
	minEvery = 500 * time.Millisecond
	maxEvery = time.Hour
)

func watchingOf(args []string) (watching, error) {
	w := watching{every: 2 * time.Second}
	if len(args) > 0 && args[0] == "-n" {
		var seconds float64
		err := errors.New("is missing")
		if len(args) > 1 {
			seconds, err = strconv.ParseFloat(args[1], 64)
		}
		if err != nil || !(seconds >= minEvery.Seconds() && seconds <= maxEvery.Seconds()) {
			return w, fmt.Errorf("-n takes the seconds between two rounds, from %g to %g", minEvery.Seconds(), maxEvery.Seconds())
		}
		w.every, args = time.Duration(seconds*float64(time.Second)), args[2:]
	}
	if len(args) == 0 {
		return w, errors.New("watch takes checks, or a tool command")
	}
	if i := slices.IndexFunc(tools.All(), func(t *probe.Tool) bool { return t.Name == args[0] && !t.Reads }); i >= 0 {
		w.tool, w.args = tools.All()[i], args[1:]
		err := w.tool.Check(w.args)
		if err == nil && w.tool.Endless != nil && w.tool.Endless(w.args) {
			err = fmt.Errorf("'%s' already runs until you stop it: run it without watch", strings.Join(args, " "))
		}
		if err == nil && tools.Traces(probe.Call{Tool: w.tool.Name, Args: w.args}) {
			err = errors.New("drops --trace loads programs into the kernel: run it each time, without watch")
		}
		return w, err
	}
	w.want = args
	return w, checksNamed(args)
}

func (c *Session) watchCommand() *prompt.Command {
	return &prompt.Command{
		Name: "watch", Usage: "[-n SECONDS] CHECK...", Short: "repeat checks, and show what changes", Doc: watchDoc, Run: c.watch,
		Check:    func(args []string) error { _, err := watchingOf(args); return err },
		Complete: func(context.Context, []string) []string { return examine.CheckIDs(examine.Suite()) },
	}
}

// watch repeats until Ctrl-C, which is the normal way to end it.
func (c *Session) watch(ctx context.Context, call *prompt.Call) error {
	what, err := watchingOf(call.Args)
	if err != nil {
		return prompt.Usagef("%w", err)
	}
	if what.tool == nil { // fail immediately if this access method cannot run a check
		if _, err := examine.New(c.at.client, c.at.asking(what.want), nil); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer c.interrupts.TakeFree(cancel)() // at a prompt, Ctrl-C ends ctx
	s := c.at
	changes := report.NewChanges(call.Terminal && ui.Colourful(c.stdout))
	pace := pace{every: what.every}
	var last *turn // the last round, which is not in the transcript yet
	defer func() { last.write(c) }()
	for {
		began, before := time.Now(), s.placed
		gone := s.session == nil || s.session.Gone() != nil
		if injector.AccessOf(s.method).Stays && pace.deaths > maxDeaths && gone {
			return fmt.Errorf("the probe on %s keeps exiting; ephemeral containers stay listed in their pod, so no new probe is placed; 'watch' starts again", s.opts.Node)
		}
		now := &turn{}
		answers, lost, err := c.once(ctx, s, what, now)
		if ctx.Err() != nil {
			return nil // keep the answers so far
		}
		if err != nil {
			return err
		}
		now.count(s)
		last = now
		text, changed := changes.Round(time.Now(), answers, lost)
		if changed { // record before showing: the record must contain what was shown even if the client is killed
			last.write(c)
			last = nil
		}
		if _, err := io.WriteString(call.Out, text); err != nil {
			return fmt.Errorf("writing what changed: %w", err)
		}
		wait := time.Until(began.Add(what.every))
		if s.session == nil || s.placed > before {
			wait = pace.after(time.Now(), s.placed > before)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// pace controls the pauses of a watch if its probes cannot be placed or exit early.
type pace struct {
	every  time.Duration
	slow   time.Duration // the last pause
	gone   time.Time     // when the trouble began
	deaths int           // number of consecutive probes that exited early
}

// A probe that ran for livedLong is replaced immediately. maxPause is the longest pause. With access method ephemeral,
// at most maxDeaths consecutive probes may exit early, because each container remains listed in its pod.
const (
	livedLong = time.Minute
	maxPause  = time.Minute
	maxDeaths = 3
)

// after returns the pause after a round. replaced reports whether a probe was replaced in this round, or could not be.
func (p *pace) after(now time.Time, replaced bool) time.Duration {
	if now.Sub(p.gone) > p.slow+livedLong {
		p.slow, p.deaths = p.every, 0
	} else {
		p.slow = max(p.every, min(2*p.slow, maxPause))
	}
	p.gone = now
	if replaced {
		p.deaths++
	}
	return p.slow
}

// turn has the events of one round in a watch. The round counts once it is over.
type turn struct{ events []probe.Event }

// add keeps an event of the node.
func (t *turn) add(s *nodeSession, ev probe.Event) { t.events = append(t.events, stamped(s, ev)) }

// count adds the round to the node's latest answers.
func (t *turn) count(s *nodeSession) {
	for _, ev := range t.events {
		s.answers.Add(ev)
	}
}

// write writes the round to the transcript. If t is nil, it does nothing.
func (t *turn) write(c *Session) {
	if t == nil {
		return
	}
	for _, ev := range t.events {
		c.write(ev)
	}
}

// once runs one round. lost is the reason why the answers are incomplete.
func (c *Session) once(ctx context.Context, s *nodeSession, what watching, into *turn) (answers []probe.Result,
	lost string, err error) {
	if what.tool != nil {
		return c.useOnce(ctx, s, what, into)
	}
	opts := s.asking(what.want)
	opts.OnlyNamed, opts.NoFollowUp = true, true
	run, err := examine.New(s.client, opts, nil)
	if err != nil {
		return nil, apierror.Explain(err), nil
	}
	var events []probe.Event
	err = c.asksInto(ctx, s, run, into.add, report.SinkFunc(func(ev probe.Event) error {
		events = append(events,
			ev)
		return nil
	}))
	for _, r := range only(s, events) {
		switch {
		case r.Check != probe.CheckPlaced && r.Check != probe.CheckAnswered:
			answers = append(answers, r)
		case r.Status == probe.Unknown:
			lost = r.Saw
		}
	}
	if err != nil {
		lost = apierror.Explain(err)
	}
	return answers, lost, nil
}

// maxWatched is the maximum number of bytes that a tool may write in one round.
const maxWatched = 4 << 20

// useOnce runs a tool once. The tool's outcome is an answer, and each line of its output is also an answer. The first
// word of a line is the target, because in a table it is a name.
func (c *Session) useOnce(ctx context.Context, s *nodeSession, what watching, into *turn) (answers []probe.Result,
	lost string, err error) {
	var out strings.Builder
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	outcome, err := s.call(ctx, probe.Call{Tool: what.tool.Name, Args: what.args}, func(ev probe.Event) {
		if out.Len() > maxWatched {
			enough()
			return
		}
		into.add(s, ev)
		if ev.Type == probe.EventOut {
			out.Write(bytesOf(ev))
		}
	})
	name := strings.Join(what.args, " ")
	switch {
	case out.Len() > maxWatched:
		return nil, "", prompt.Usagef("%s %s writes more than %d MB each time, which is more than watch compares: narrow its arguments", what.tool.Name, name, maxWatched>>20)
	case err != nil:
		return nil, apierror.Explain(err), nil
	case outcome.Status == probe.Unknown:
		lost = outcome.Saw
	default:
		answers = append(answers, outcome.On(name))
	}
	for line := range strings.Lines(out.String()) {
		first, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if first != "" {
			answers = append(answers, probe.Result{Target: first, Saw: strings.Join(strings.Fields(rest), " ")})
		}
	}
	for i := range answers {
		answers[i].Check = what.tool.Name
	}
	return answers, lost, nil
}

// only returns the results about a node.
func only(s *nodeSession, events []probe.Event) []probe.Result {
	var out []probe.Result
	for _, ev := range events {
		if ev.Result != nil && ev.Node == s.opts.Node {
			out = append(out, *ev.Result)
		}
	}
	return out
}
