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

// Limit is the default limit of a whole runbook.
const Limit = 30 * time.Minute

// Defaults and fixed limits of steps.
const (
	defaultEvery  = 15 * time.Second // between the attempts of a wait
	checkLimit    = 10 * time.Second // for a check's command
	notifyLimit   = 30 * time.Second // for a notify's command
	parallelNodes = 4                // each run holds a pod and a connection to the API
	maxNodes      = 50               // in one run: takes a few minutes, and the record is small enough to send
	oldNews       = 10 * time.Minute // older results are shown with their age
)

// World has the functions with which a runbook accesses everything outside of it. Every function honours its context,
// and may be called again after a resume.
type World struct {
	// Run examines a node as 'calico-probe run' does. If it returns an error, the run has the results up to the error.
	Run func(ctx context.Context, node string, r Run) (report.Run, error)
	// Agree is called before a step runs on these nodes. An error means that the user refuses, and stops the runbook.
	Agree func(ctx context.Context, r Run, nodes []string) error
	// Fleet examines many nodes as 'calico-probe run --all-nodes' does. If it returns an error, the fleet has the results
	// up to the error.
	Fleet func(ctx context.Context, f Fleet) (report.Fleet, error)
	// Nodes returns the nodes that match a selector, or a number of other ready nodes. It omits the node named by besides.
	Nodes func(ctx context.Context, n Nodes, besides string) ([]string, error)
	// Ask asks a person a question. If there is no person, it returns ErrNoPerson.
	Ask func(ctx context.Context, q Question) (string, error)
	// Confirm asks a person to confirm an action. If there is no person, it returns ErrNoPerson.
	Confirm func(ctx context.Context, p Proposal) (bool, error)
	// Show is called with every finished step, in order, including those before a resume.
	Show func(Entry) error
	// Progress shows a text to a person who waits. Say prints a text once, for any reader.
	Progress, Say func(text string)
	// Waits reports the start of a wait and each attempt. Each text replaces the previous text. "" reports the end.
	Waits      func(text string)
	Who        string // the user who runs this
	Unattended bool   // no person can confirm actions
	// Kubeconfig writes a file that points a command to the runbook's cluster. remove deletes the file afterwards, because
	// it may contain secrets. Kubeconfig is nil if commands find the cluster themselves.
	Kubeconfig func() (name string, remove func(), err error)
	NoKubectl  string // why kubectl cannot use that file; "" if it can
}

// ErrNoPerson means that no person can be asked.
var ErrNoPerson = errors.New("there is no terminal to ask on")

// Mistake is a wrong input because of which the runbook cannot start.
type Mistake struct{ Err error }

func (m Mistake) Error() string { return m.Err.Error() }
func (m Mistake) Unwrap() error { return m.Err }

// Proposal is an action that a person must confirm.
type Proposal struct {
	Step string
	Deed        // what is known so far
	Seen string // the age of the results on which it is based; "" if they are fresh
}

// Engine runs one runbook once.
type Engine struct {
	Runbook  *Runbook
	Journal  *Journal
	World    World
	Answers  map[string]string // by the names of their steps
	Actions  []string          // names of steps with an allowed action
	Commands bool              // allow programs on this machine

	past bool // only replay the journal
}

// Replay shows the record in a journal, but does not run anything.
func Replay(rb *Runbook, j *Journal) (*Record, error) {
	e := &Engine{Runbook: rb, Journal: j, past: true, World: World{Show: func(Entry) error { return nil }}}
	return e.Do(context.Background())
}

// walk is one execution of a runbook.
type walk struct {
	*Engine
	record    *Record
	node      string
	last      []Asked // the last run on the runbook's node: none or one
	lastRun   *Run    // the options of that run
	lastAt    time.Time
	own       []Result // results of the runbook's own checks
	answers   map[string]string
	steps     map[string]Seen
	answered  bool   // at least one check had a result, good or bad
	cut       *Entry // a run or a wait that was interrupted
	later     bool   // an answer left the runbook open
	unwritten sync.Once
}

// stop ends a runbook.
type stop struct {
	Outcome
	resumable bool // a later resume may supply what is missing
}

func (s stop) Error() string { return s.Says }

// Do runs the runbook, or resumes it at the end of its journal. If the journal still has no outcome after that, the
// runbook can be resumed again. The error is a Mistake, an error from showing an entry, or an error because the journal
// does not match.
func (e *Engine) Do(ctx context.Context) (*Record, error) {
	b := e.Journal.Header
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
		ended = stop{Outcome{Verdict: wordIncomplete, Exit: exit, Says: "stopped early: " + why}, true}
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

// exitInterrupted is the exit code of a program that Ctrl-C stopped (128 + SIGINT).
const exitInterrupted = 130

// exitOf returns the exit code of a verdict.
func exitOf(verdict string) int {
	switch verdict {
	case wordHealthy, wordWarnings:
		return report.ExitHealthy
	case wordFault:
		return report.ExitFault
	}
	return report.ExitIncomplete
}

// atEnd returns the outcome of a runbook without a conclusion, which comes from the last results.
func (w *walk) atEnd() Outcome {
	last := w.sight().last
	if last.Verdict == "" {
		return Outcome{Verdict: wordIncomplete, Says: "no run on the node, and no conclusion"}
	}
	return Outcome{Verdict: last.Verdict, Says: "no step reached a conclusion; " + last.why()}
}

// cannotGoOn returns the outcome of a runbook that cannot continue: a fault if the last run saw a fault, otherwise
// incomplete.
func (w *walk) cannotGoOn(says string) error {
	verdict := wordIncomplete
	if w.sight().last.Verdict == wordFault {
		verdict = wordFault
	}
	return stop{Outcome: Outcome{Verdict: verdict, Says: says}}
}

// If the node was last examined some time ago, old reports when. A resumed runbook uses the results in its journal.
func (w *walk) old() string {
	if w.lastAt.IsZero() || time.Since(w.lastAt) < oldNews {
		return ""
	}
	return fmt.Sprintf("these results are from %s (%v ago)", w.lastAt.Format("2006-01-02 15:04 UTC"), time.Since(w.lastAt).Round(time.Minute))
}

// sight returns what expressions can currently read.
func (w *walk) sight() sight {
	return sight{
		node: w.node, params: w.record.Params, answers: w.answers, steps: w.steps, last: seen(w.last...).with(w.node, w.own),
	}
}

// wrote reports that the journal is not writable. It reports this only once.
func (w *walk) wrote(err error) {
	if err != nil {
		w.unwritten.Do(func() { w.World.Say(fmt.Sprintf("%v: this runbook cannot be resumed later", err)) })
	}
}

// effect runs a function that must not run again after a resume. If the journal has the outcome, effect returns that
// outcome. If the function was interrupted, it runs again.
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

// goesOn ends a replay at the last step of a journal without an outcome.
func goesOn(step string) error {
	return stop{Outcome{Verdict: wordIncomplete, Says: "the journal ends at " + step + ": the runbook still runs, or was interrupted"}, true}
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

// called returns a step's name for people.
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
	case w.past && then != nil && then.Entry != nil && then.Entry.Step == at: // as shown when the runbook stopped
		e = *then.Entry
	case !w.past && ctx.Err() != nil && (s.Run != nil || s.Fleet != nil || s.Wait != nil):
		e.cut()
		w.cut = &e
	case e.Held == nil && e.Deed == nil: // unfinished: the reason for the stop explains it
		return err
	}
	return errors.Join(w.show(e), err)
}

// cut marks an entry as interrupted. Its partial results then do not count as answers.
func (e *Entry) cut() {
	const again = "stopped early: it runs again when the runbook is resumed"
	if e.Kind != "wait" {
		e.Asked, e.Text = nil, again
		return
	}
	held := false
	e.Held, e.Text = &held, again+"; "+lastWords(waited{Asked: e.Asked})
}

// show records an entry and shows it.
func (w *walk) show(e Entry) error {
	w.record.Steps = append(w.record.Steps, e)
	if err := w.World.Show(e); err != nil {
		return fmt.Errorf("showing a step: %w", err)
	}
	return nil
}

// holds evaluates the condition of a step. An error stops the runbook, because either branch might be wrong.
func (w *walk) holds(ctx context.Context, at string, s *Step, text string) (bool, error) {
	holds, err := w.sight().holds(ctx, text)
	if err != nil && ctx.Err() == nil {
		return false, w.cannotGoOn(fmt.Sprintf("cannot evaluate the condition of %s: %s", called(at, s), brief(err.Error())))
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
		out.Verdict, out.Says = wordIncomplete, "unknown, because no node answered: "+out.Says
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
