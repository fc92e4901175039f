package runbook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/calico-probe/calico-probe/internal/report"
)

// Limit is that of a whole runbook, where the user sets no other.
const Limit = 30 * time.Minute

// Limits of what has none of its own.
const (
	defaultEvery  = 15 * time.Second // between the attempts of a wait
	checkLimit    = 10 * time.Second // of a check's command
	notifyLimit   = 30 * time.Second // of a notify's command
	parallelNodes = 4                // each run holds a pod and a connection to the API
	maxNodes      = 50               // of one run: some minutes, and a record that can be sent
	oldNews       = 10 * time.Minute // what was seen before that is said to be old
)

// World is how a runbook reaches what is outside of it. Every function honours its
// context and may be called again after a resume.
type World struct {
	// Run asks a node as 'calico-probe run' does. With an error, what was had is in the run.
	Run func(ctx context.Context, node string, r Run) (report.Run, error)
	// Agree is called before a step runs on these nodes. Its error stops the runbook: the user did not agree.
	Agree func(ctx context.Context, r Run, nodes []string) error
	// Fleet asks many nodes as 'calico-probe run --all-nodes' does. With an error, what was had is in the run.
	Fleet func(ctx context.Context, f Fleet) (report.Fleet, error)
	// Nodes names the nodes a selector or a number of others picks, without the one given.
	Nodes func(ctx context.Context, n Nodes, besides string) ([]string, error)
	// Ask puts a question to a person; ErrNoPerson where there is none.
	Ask func(ctx context.Context, q Question) (string, error)
	// Confirm asks whether an action is to be done; ErrNoPerson where there is no person to ask.
	Confirm func(ctx context.Context, p Proposal) (bool, error)
	// Show is given every step when it is over, in order, also those of before a resume.
	Show func(Entry) error
	// Progress is for a person who waits; Say is for the reader, once.
	Progress, Say func(text string)
	// Waits tells of a wait: that it begins, and what came of each attempt, in place of what
	// it told before; "" when it is over.
	Waits      func(text string)
	Who        string // runs this
	Unattended bool   // there is no person to confirm anything
	// Kubeconfig makes a file that leads a command to the cluster of the runbook, and is
	// removed when that has ended: it may hold secrets. nil where commands find it themselves.
	Kubeconfig func() (name string, remove func(), err error)
	NoKubectl  string // why kubectl cannot be led there, "" where it can
}

// ErrNoPerson says that there is no person to ask.
var ErrNoPerson = errors.New("there is no terminal for a question")

// Mistake is an error of what was given: the runbook does not go on with it.
type Mistake struct{ Err error }

func (m Mistake) Error() string { return m.Err.Error() }
func (m Mistake) Unwrap() error { return m.Err }

// Proposal is an action a person is to confirm.
type Proposal struct {
	Step string
	Deed        // what is known of it so far
	Seen string // when what it goes by was seen, where that is not just now
}

// Engine runs one runbook once.
type Engine struct {
	Runbook  *Runbook
	Journal  *Journal
	World    World
	Answers  map[string]string // to asks, by the names of their steps
	Actions  []string          // steps whose actions are allowed
	Commands bool              // programs may be started on this machine

	past bool // only what the journal has is shown
}

// Replay tells what a journal has of its runbook, and does nothing.
func Replay(rb *Runbook, j *Journal) (*Record, error) {
	e := &Engine{Runbook: rb, Journal: j, past: true, World: World{Show: func(Entry) error { return nil }}}
	return e.Do(context.Background())
}

// walk is a runbook on its way.
type walk struct {
	*Engine
	record    *Record
	node      string
	last      []Asked // of the node of the runbook; none or one
	lastRun   *Run    // what was asked of it
	lastAt    time.Time
	own       []Result // of the runbook's own checks
	answers   map[string]string
	steps     map[string]Seen
	answered  bool   // somebody gave a good or bad answer
	cut       *Entry // a run or a wait that was stopped
	later     bool   // somebody answered that it is to stay open
	unwritten sync.Once
}

// stop ends a runbook.
type stop struct {
	Outcome
	resumable bool // what it lacked can be given
}

func (s stop) Error() string { return s.Says }

// Do runs it, or goes on where its journal ends. The record tells what it came to; where
// the journal has no end then, it can be gone on with. An error is a Mistake, or one of
// showing and of a journal that does not fit.
func (e *Engine) Do(ctx context.Context) (*Record, error) {
	b := e.Journal.Begun
	w := &walk{Engine: e, node: b.Node, answers: map[string]string{}, steps: map[string]Seen{}, record: &Record{
		V: recordVersion, Kind: KindRecord, Version: b.Version, Runbook: b.Runbook, Title: e.Runbook.Spec.Title,
		Digest: b.Digest, Node: b.Node, Cluster: b.Cluster, Params: b.Params, By: b.By, Began: b.At, Steps: []Entry{},
	}}
	e.Runbook.each(func(s *Step) {
		switch {
		case s.Ask != nil:
			w.answers[s.Name] = ""
		case s.Name != "" && (s.Run != nil || s.Fleet != nil || s.Wait != nil || s.Check != nil):
			w.steps[s.Name] = seen()
		}
	})
	err := w.walk(ctx, "", e.Runbook.Spec.Steps)
	var ended stop
	switch {
	case errors.As(err, &ended):
	case ctx.Err() != nil:
		why, exit := "interrupted", exitInterrupted
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			why, exit = cause.Error(), report.ExitIncomplete
		}
		ended = stop{Outcome{Verdict: wordIncomplete, Exit: exit, Says: "it was stopped before its end: " + why}, true}
	case err != nil:
		return w.record, err
	default:
		ended = stop{Outcome: w.atEnd()}
	}
	ended.Exit, ended.Ended = cmp.Or(ended.Exit, exitOf(ended.Verdict)), time.Now().UTC()
	ended.resumable = ended.resumable || w.later
	if old := w.old(); old != "" && !e.past {
		ended.Says = strings.TrimPrefix(ended.Says+"; "+old, "; ")
	}
	switch {
	case e.past:
	case ended.resumable:
		w.wrote(e.Journal.left(left{Entry: w.cut, Outcome: ended.Outcome}))
	default:
		w.wrote(e.Journal.outcome(ended.Outcome))
	}
	switch w.record.Outcome = &ended.Outcome; {
	case e.past && e.Journal.Ended:
		w.record.Outcome = &e.Journal.came
	case e.past && e.Journal.cut != nil:
		w.record.Outcome = &e.Journal.cut.Outcome
	}
	return w.record, nil
}

// exitInterrupted is the exit code of a program that Ctrl-C has ended.
const exitInterrupted = 130

// exitOf is the exit code of a verdict.
func exitOf(verdict string) int {
	switch verdict {
	case wordHealthy, wordWarnings:
		return report.ExitHealthy
	case wordFault:
		return report.ExitFault
	}
	return report.ExitIncomplete
}

// atEnd is what a runbook comes to that concludes nothing: what was seen last.
func (w *walk) atEnd() Outcome {
	last := w.sight().last
	if last.Verdict == "" {
		return Outcome{Verdict: wordIncomplete, Says: "nothing was asked of the node, and nothing concluded"}
	}
	return Outcome{Verdict: last.Verdict, Says: "no step concluded anything; " + last.why()}
}

// cannotGoOn is what a runbook comes to that something stops: a fault where the last run
// saw one, and never more than incomplete where it did not.
func (w *walk) cannotGoOn(says string) error {
	verdict := wordIncomplete
	if w.sight().last.Verdict == wordFault {
		verdict = wordFault
	}
	return stop{Outcome: Outcome{Verdict: verdict, Says: says}}
}

// old says when the node was last asked, where that is not just now: a runbook that is
// resumed goes by what the journal has.
func (w *walk) old() string {
	if w.lastAt.IsZero() || time.Since(w.lastAt) < oldNews {
		return ""
	}
	return fmt.Sprintf("what was seen is of %s, %v ago", w.lastAt.Format("2006-01-02 15:04 UTC"), time.Since(w.lastAt).Round(time.Minute))
}

// sight is what expressions read now.
func (w *walk) sight() sight {
	return sight{
		node: w.node, params: w.record.Params, answers: w.answers, steps: w.steps, last: seen(w.last...).with(w.node, w.own),
	}
}

// wrote tells once that the journal cannot be written.
func (w *walk) wrote(err error) {
	if err != nil {
		w.unwritten.Do(func() { w.World.Say(fmt.Sprintf("%v: this runbook cannot be resumed later", err)) })
	}
}

// effect is what is not done again when a runbook is resumed and it had ended: what it came
// to is taken from the journal. One that was cut is done anew.
func effect[T any](w *walk, key, step string, do func() (T, error)) (out T, at time.Time, err error) {
	at, ok, err := w.Journal.ended(key, &out)
	if ok {
		return out, at, err
	}
	if w.past {
		return out, at, goesOn(cmp.Or(step, key))
	}
	w.wrote(w.Journal.begin(key, step))
	made, err := do()
	if err != nil {
		return out, at, err
	}
	if made, err = through(made); err != nil {
		return out, at, err
	}
	at, err = w.Journal.end(key, step, made)
	w.wrote(err)
	return made, at, nil
}

// goesOn is where a journal ends before its runbook.
func goesOn(step string) error {
	return stop{Outcome{Verdict: wordIncomplete, Says: "what was written ends here, at " + step + ": it goes on, or was cut"}, true}
}

func (w *walk) walk(ctx context.Context, above string, steps []Step) error {
	for i := range steps {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := w.step(ctx, fmt.Sprintf("%s%d", above, i+1), &steps[i]); err != nil {
			return err
		}
	}
	return nil
}

// called is how people know a step.
func called(at string, s *Step) string { return cmp.Or(s.Name, "step "+at) }

func (w *walk) step(ctx context.Context, at string, s *Step) error {
	e := Entry{Step: at, Name: s.Name, Kind: s.kind()[0]}
	if s.When != "" {
		holds, err := w.holds(ctx, at, s, s.When)
		if err != nil {
			return err
		}
		if !holds {
			e.LeftOut = brief(s.When)
			return w.show(e)
		}
	}
	var err error
	switch {
	case s.Run != nil:
		err = w.run(ctx, &e, s)
	case s.Fleet != nil:
		err = w.fleet(ctx, &e, s)
	case s.Check != nil:
		err = w.check(ctx, &e, s)
	case s.Note != "":
		e.Text = w.sight().say(ctx, s.Note)
	case s.Ask != nil:
		err = w.ask(ctx, &e, s)
	case s.Assert != nil:
		err = w.assert(ctx, &e, s)
	case s.Wait != nil:
		err = w.wait(ctx, &e, s)
	case s.Notify != nil:
		err = w.notify(ctx, &e, s)
	case s.Action != nil:
		err = w.action(ctx, &e, s)
	case s.Conclude != nil:
		return w.conclude(ctx, e, s.Conclude)
	default:
		return w.choose(ctx, e, s)
	}
	switch then := w.Journal.cut; {
	case err == nil:
	case w.past && then != nil && then.Entry != nil && then.Entry.Step == at: // as it was shown when it was stopped
		e = *then.Entry
	case !w.past && ctx.Err() != nil && (s.Run != nil || s.Fleet != nil || s.Wait != nil):
		e.cut()
		w.cut = &e
	case e.Held == nil && e.Deed == nil: // it has not come to its end; what was stopped for says why
		return err
	}
	return errors.Join(w.show(e), err)
}

// cut makes an entry that of a run or a wait that was stopped: what came of it is no answer.
func (e *Entry) cut() {
	const again = "stopped before its end: it is asked again where this is gone on with"
	if e.Kind != "wait" {
		e.Asked, e.Text = nil, again
		return
	}
	held := false
	e.Held, e.Text = &held, again+"; "+lastWords(waited{Asked: e.Asked})
}

// show keeps an entry and passes it on.
func (w *walk) show(e Entry) error {
	w.record.Steps = append(w.record.Steps, e)
	if err := w.World.Show(e); err != nil {
		return fmt.Errorf("showing a step: %w", err)
	}
	return nil
}

// holds evaluates a condition of a step; what cannot be evaluated stops the runbook, since
// either way might be the wrong one.
func (w *walk) holds(ctx context.Context, at string, s *Step, text string) (bool, error) {
	holds, err := w.sight().holds(ctx, text)
	if err != nil && ctx.Err() == nil {
		return false, w.cannotGoOn(fmt.Sprintf("%s cannot be decided: %s", called(at, s), brief(err.Error())))
	}
	return holds, err
}

func (w *walk) choose(ctx context.Context, e Entry, s *Step) error {
	e.Choice = &Choice{}
	for _, b := range s.Choose {
		if b.When != "" {
			holds, err := w.holds(ctx, e.Step, s, b.When)
			if err != nil {
				return err
			}
			if !holds {
				e.Choice.Not = append(e.Choice.Not, b.Name)
				continue
			}
		}
		e.Choice.Branch, e.Choice.When = b.Name, brief(b.When)
		if err := w.show(e); err != nil {
			return err
		}
		return w.walk(ctx, e.Step+"."+b.Name+".", b.Steps)
	}
	return w.show(e)
}

func (w *walk) conclude(ctx context.Context, e Entry, c *Conclude) error {
	out := Outcome{
		Verdict: cmp.Or(c.Verdict, w.sight().last.Verdict, wordIncomplete), Says: w.sight().say(ctx, c.Says),
		Next: w.sight().say(ctx, c.Next),
	}
	if exitOf(out.Verdict) == report.ExitHealthy && !w.answered {
		out.Verdict, out.Says = wordIncomplete, "no node gave an answer, so that this is not known: "+out.Says
	}
	e.Text = out.Says
	if err := w.show(e); err != nil {
		return err
	}
	return stop{Outcome: out}
}

func (w *walk) assert(ctx context.Context, e *Entry, s *Step) error {
	holds, err := w.holds(ctx, e.Step, s, s.Assert.That)
	if err != nil {
		return err
	}
	e.That, e.Held = brief(s.Assert.That), &holds
	if !holds {
		e.Text = w.sight().say(ctx, s.Assert.Else)
		return w.cannotGoOn(e.Text)
	}
	return nil
}
