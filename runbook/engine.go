package runbook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/report"
)

// Limit is that of a whole runbook, where whoever runs it sets no other.
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
	// Nodes names the nodes a selector or a number of others picks, without the one given.
	Nodes func(ctx context.Context, n Nodes, besides string) ([]string, error)
	// Ask puts a question to a person; ErrNobody where there is none.
	Ask func(ctx context.Context, q Question) (string, error)
	// Confirm asks whether an action is to be done; ErrNobody where there is nobody to ask.
	Confirm func(ctx context.Context, p Proposal) (bool, error)
	// Show is given every step when it is over, in order, also those of before a resume.
	Show func(Entry) error
	// Progress is for a person who waits; Say is for whoever reads, once.
	Progress, Say func(text string)
	// Waits tells of a wait: that it begins, and what came of each attempt, in place of what
	// it told before; "" when it is over.
	Waits  func(text string)
	Who    string // runs this
	Nobody bool   // there is no person to confirm anything
	// Kubeconfig is a file that leads every command to the cluster of the runbook; "" where
	// they find it themselves. NoKubectl is why kubectl cannot be led there, "" where it can.
	Kubeconfig, NoKubectl string
}

// ErrNobody says that there is no person to ask.
var ErrNobody = errors.New("there is no terminal to ask on")

// Mistake is an error of what was given: the runbook does not go on with it.
type Mistake struct{ Err error }

func (m Mistake) Error() string { return m.Err.Error() }
func (m Mistake) Unwrap() error { return m.Err }

// Question is what a person is asked.
type Question struct {
	Step    string
	Text    string
	Options []string // nil = any text
	Default *string  // for an empty answer
	Wrong   string   // what was answered before, and is no option
}

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

	past bool // only what the journal has is told
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
		V: RecordVersion, Kind: KindRecord, Version: b.Version, Runbook: b.Runbook, Title: e.Runbook.Spec.Title, Digest: b.Digest,
		Node: b.Node, Params: b.Params, By: b.By, Began: b.At, Steps: []Entry{},
	}}
	e.Runbook.each(func(s *Step) {
		switch {
		case s.Ask != nil:
			w.answers[s.Name] = ""
		case s.Name != "" && (s.Run != nil || s.Wait != nil || s.Check != nil):
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
	return sight{node: w.node, params: w.record.Params, answers: w.answers, steps: w.steps, last: seen(w.last...).with(w.node, w.own)}
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
	if err != nil && ctx.Err() != nil && !w.past && (s.Run != nil || s.Wait != nil) {
		e.cut()
		w.cut = &e
	} else if err != nil && w.past && w.Journal.cut != nil && w.Journal.cut.Entry != nil && w.Journal.cut.Entry.Step == at {
		e = *w.Journal.cut.Entry
	} else if err != nil && e.Held == nil && e.Deed == nil { // it has not come to its end; what was stopped for says why
		return err
	}
	return errors.Join(w.show(e), err)
}

// cut makes an entry that of a run or a wait that was stopped: what came of it is no answer.
func (e *Entry) cut() {
	const again = "stopped before its end: it is asked again where this is gone on with"
	if e.Kind == "run" {
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

// holds evaluates a condition of a step; what cannot be told stops the runbook, since
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
	out := Outcome{Verdict: cmp.Or(c.Verdict, w.sight().last.Verdict, wordIncomplete), Says: w.sight().say(ctx, c.Says), Next: w.sight().say(ctx, c.Next)}
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

// nodes are those a run asks.
func (w *walk) nodes(ctx context.Context, r *Run) ([]string, error) {
	switch {
	case r.On == nil:
		return []string{w.node}, nil
	case len(r.On.Names) == 0:
		out, err := w.World.Nodes(ctx, *r.On, w.node)
		if len(out) > maxNodes {
			return nil, fmt.Errorf("%d nodes are picked, and a run asks %d at most: narrow the selector", len(out), maxNodes)
		}
		return out, err
	}
	var out []string
	for _, text := range r.On.Names {
		name, err := w.sight().text(ctx, text)
		if err != nil {
			return nil, err
		}
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// noNodes is what a runbook comes to that cannot be told which nodes to ask, which may be
// better later.
func noNodes(at string, s *Step, err error) error {
	return stop{Outcome{Verdict: wordIncomplete, Says: fmt.Sprintf("%s: which nodes to ask is not known: %s", called(at, s), brief(err.Error()))}, true}
}

// askOne asks one node. That it cannot be asked is an answer, unless it is a mistake
// about the node of the runbook.
func (w *walk) askOne(ctx context.Context, node string, r Run) (Asked, error) {
	w.World.Progress("asking " + node)
	run, err := w.World.Run(ctx, node, r)
	if ctx.Err() != nil || err != nil && node == w.node && errors.As(err, new(Mistake)) { // a run that was cut may end without an error
		return Asked{}, cmp.Or(context.Cause(ctx), err)
	}
	return asked(node, run, err), nil
}

// onEach does something for every node, a few at a time.
func onEach(nodes []string, do func(i int, node string) error) error {
	errs := make([]error, len(nodes))
	turn := make(chan struct{}, parallelNodes)
	var all sync.WaitGroup
	for i, node := range nodes {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			errs[i] = do(i, node)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (w *walk) run(ctx context.Context, e *Entry, s *Step) error {
	// Which nodes those are must not change under a resume.
	nodes, at, err := effect(w, e.Step+"@", s.Name, func() ([]string, error) { return w.nodes(ctx, s.Run) })
	if err != nil {
		if ctx.Err() != nil || errors.As(err, new(Mistake)) || errors.As(err, new(stop)) {
			return err
		}
		return noNodes(e.Step, s, err)
	}
	e.At, e.Asked = at, make([]Asked, len(nodes))
	times := make([]time.Time, len(nodes))
	err = onEach(nodes, func(i int, node string) (err error) {
		e.Asked[i], times[i], err = effect(w, e.Step+"@"+node, s.Name, func() (Asked, error) { return w.askOne(ctx, node, *s.Run) })
		return err
	})
	if err != nil {
		return err
	}
	for _, t := range times {
		if t.After(e.At) {
			e.At = t
		}
	}
	if s.Run.On != nil && len(nodes) < max(1, s.Run.On.Others) {
		e.Text = fmt.Sprintf("%d nodes were to be asked, and there were %d", max(1, s.Run.On.Others), len(nodes))
	}
	w.saw(s.Name, s.Run, e.Asked, e.At)
	return nil
}

// saw makes what was asked what expressions read.
func (w *walk) saw(name string, r *Run, all []Asked, at time.Time) {
	if name != "" {
		w.steps[name] = seen(all...)
	}
	for _, a := range all {
		if a.Node == w.node {
			here := *r
			here.On = nil
			w.last, w.lastRun, w.own, w.lastAt = []Asked{a}, &here, nil, at.UTC()
		}
		w.answered = w.answered || slices.ContainsFunc(a.Results, func(r Result) bool {
			return r.Check != probe.CheckPlaced && r.Check != probe.CheckAnswered && r.Status != string(probe.Skip) && r.Status != string(probe.Unknown)
		})
	}
}

// waited is what a wait came to.
type waited struct {
	Held  bool    `json:"held"`
	Tries int     `json:"tries"`
	Asked []Asked `json:"asked"`
	Why   string  `json:"why,omitempty"` // it could not be told, the last time
}

func (w *walk) wait(ctx context.Context, e *Entry, s *Step) error {
	r := s.Wait.Run
	if r == nil {
		r = w.lastRun
	}
	if r == nil {
		return w.cannotGoOn(called(e.Step, s) + ": nothing was asked of the node before, so that there is nothing to ask again")
	}
	out, at, err := effect(w, e.Step, s.Name, func() (waited, error) {
		out, err := w.until(ctx, e.Step, s, r)
		e.That, e.Tries, e.Asked = brief(s.Wait.Until), out.Tries, out.Asked // of one that was stopped
		return out, err
	})
	if err != nil {
		return err
	}
	if len(out.Asked) > 0 {
		w.saw(s.Name, r, out.Asked, at)
	}
	e.At, e.That, e.Held, e.Tries, e.Asked = at, brief(s.Wait.Until), &out.Held, out.Tries, out.Asked
	if out.Held {
		return nil
	}
	e.Text = cmp.Or(w.sight().say(ctx, s.Wait.Else), fmt.Sprintf("%s did not come to hold within %v", brief(s.Wait.Until), time.Duration(s.Wait.Within)))
	e.Text += "; " + lastWords(out)
	return w.cannotGoOn(e.Text)
}

// lastWords tell what a wait saw last.
func lastWords(out waited) string {
	if len(out.Asked) == 0 {
		return "no answer came in that time"
	}
	var parts []string
	for _, a := range out.Asked {
		parts = append(parts, a.Node+": "+a.brief())
	}
	if out.Why != "" {
		parts = append(parts, "and it could not be told: "+out.Why)
	}
	return "seen last: " + strings.Join(parts, ", ")
}

// brief is one run in a few words: its verdict, and what explains it.
func (a Asked) brief() string {
	var causes []string
	for _, c := range a.Causes {
		causes = append(causes, fmt.Sprintf("%s (%s)", c.ID, c.Confidence))
	}
	out := a.Verdict
	if len(causes) > 0 {
		out += ", " + strings.Join(causes, ", ")
	}
	if a.Unasked != "" {
		out += ", " + a.Unasked
	}
	return plainly(out)
}

// until asks again and again. It is one effect: a wait that was cut begins anew.
func (w *walk) until(ctx context.Context, at string, s *Step, r *Run) (waited, error) {
	var out waited
	within := time.Duration(s.Wait.Within)
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	began := time.Now()
	w.World.Waits(fmt.Sprintf("%s: asking until it holds, for %v at most", called(at, s), within))
	defer w.World.Waits("")
	last, lastRun, own, steps, answered := w.last, w.lastRun, w.own, w.steps, w.answered
	defer func() { w.last, w.lastRun, w.own, w.steps, w.answered = last, lastRun, own, steps, answered }()
	nodes, err := w.nodes(limited, r)
	if err != nil {
		if ctx.Err() != nil || errors.As(err, new(Mistake)) {
			return out, err
		}
		return out, noNodes(at, s, err)
	}
	for {
		all := make([]Asked, len(nodes))
		err := onEach(nodes, func(i int, node string) (err error) {
			if all[i], err = w.askOne(limited, node, *r); err == nil {
				all[i], err = through(all[i])
			}
			return err
		})
		switch {
		case ctx.Err() != nil:
			return out, context.Cause(ctx)
		case limited.Err() != nil && err != nil:
			return out, nil // the attempt that was cut tells nothing
		case err != nil:
			return out, err
		}
		out.Tries++
		out.Asked, out.Why = all, ""
		w.saw("", r, all, time.Now())
		if s.Name != "" {
			w.steps = maps.Clone(steps)
			w.steps[s.Name] = seen(all...)
		}
		if out.Held, err = w.sight().holds(ctx, s.Wait.Until); err != nil {
			out.Why = plainly(err.Error())
		}
		if out.Held {
			return out, nil
		}
		left := within - time.Since(began)
		w.World.Waits(fmt.Sprintf("%s: attempt %d, not yet, %s left; %s", called(at, s), out.Tries, max(0, left).Round(time.Second), lastWords(out)))
		pause := time.NewTimer(cmp.Or(time.Duration(s.Wait.Every), defaultEvery))
		select {
		case <-pause.C:
		case <-limited.Done():
			pause.Stop()
			return out, context.Cause(ctx) // nil where it was the wait's own limit
		}
	}
}

func (w *walk) ask(ctx context.Context, e *Entry, s *Step) error {
	e.Text = w.sight().say(ctx, s.Ask.Question)
	var before Answer
	if _, done, err := w.Journal.ended(e.Step, &before); done && err == nil && !w.past && before.Text == s.Ask.Later && before.Text != "" {
		w.Journal.forget(e.Step)
	}
	out, at, err := effect(w, e.Step, s.Name, func() (Answer, error) { return w.answer(ctx, s, e.Text) })
	if err != nil {
		return err
	}
	e.At, e.Answer = at, &out
	w.later = w.later || out.Text == s.Ask.Later && out.Text != ""
	w.answers[s.Name] = out.Text
	return nil
}

func (w *walk) answer(ctx context.Context, s *Step, question string) (Answer, error) {
	if text, given := w.Answers[s.Name]; given {
		return Answer{text, "--answer"}, nil
	}
	q := Question{Step: s.Name, Text: question, Options: s.Ask.Options, Default: s.Ask.Default}
	for {
		text, err := w.World.Ask(ctx, q)
		switch {
		case errors.Is(err, ErrNobody) && q.Default != nil:
			return Answer{*q.Default, "default"}, nil
		case errors.Is(err, ErrNobody):
			return Answer{}, stop{Outcome{Verdict: wordIncomplete, Says: fmt.Sprintf("%s is not answered (%s), and %v: give --answer %s=TEXT", s.Name, brief(question), ErrNobody, s.Name)}, true}
		case err != nil:
			return Answer{}, err
		}
		text = strings.TrimSpace(text)
		if text == "" && q.Default != nil {
			text = *q.Default
		}
		if answer, ok := option(q.Options, text); ok {
			return Answer{answer, w.World.Who}, nil
		}
		q.Wrong = text
	}
}

// option is the option that is meant by what was typed: itself, or how it alone begins.
func option(options []string, typed string) (string, bool) {
	if len(options) == 0 || slices.Contains(options, typed) {
		return typed, typed != ""
	}
	var found []string
	for _, o := range options {
		if typed != "" && strings.HasPrefix(strings.ToLower(o), strings.ToLower(typed)) {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		return "", false
	}
	return found[0], true
}
