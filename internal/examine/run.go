// Package examine is one examination of one node, from validated options to the verdict. Run.do, below, is all of it,
// and its steps follow in this file in their order:
//
//	Begin         which cluster is asked
//	Client.Read   what the API says of the node: one cluster.Snapshot (client.go)
//	AskAPI        the checks that the API answers; another node looks at this one meanwhile (outside.go)
//	askNode       a probe is put on the node (place.go), answers its plan, and then what that calls for (followup.go)
//	Compare       healthy nodes are asked the same where something is bad (baseline.go)
//	ReportOthers  what other nodes answered
//	Conclude      the causes and the verdict (collect.go)
//
// A verb makes Options from its flags and a Client from the program's configuration, and runs
// them:
//
//	run, err := examine.New(client, opts, sink) // a usage error, before anything is asked
//	ctx, cancel := opts.Deadline(ctx)
//	defer cancel()
//	err = run.Do(ctx) // a ui.Exit once the verdict is reported
//
// A session (package session) keeps a probe on each node, and takes the same steps with an askNode of its own. A run
// over many nodes (package fleet) asks each by Wave.Ask. Whatever is answered goes through the run's Collector, which
// cleans and counts it and passes it to the sink.
//
// The package knows no command line: cobra and flags stay in cmd/calico-probe.
package examine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	suiteapi "github.com/calico-probe/calico-probe/internal/subject/suite/api"
	"github.com/calico-probe/calico-probe/internal/trace"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// Run is one examination of one node.
type Run struct {
	*Collector
	ID     string
	client *Client
	opts   Options
	picked []*probe.Check

	followed []*probe.Check // those of picked that only the causes found so far wanted
	about    string         // the node that the proof of encapsulation is to be made with, "" = any

	unrenewed *cluster.Snapshot // that the kubelet has let its lease get old, nil = that was not seen

	view     *view      // from outside, nil = none
	compared comparison // with baseline nodes, nil = they are not asked yet
}

// New returns the Run that options stand for; they are completed and validated.
func New(client *Client, opts Options, sink report.Sink) (*Run, error) {
	if err := opts.Complete(); err != nil {
		return nil, err
	}
	picked, err := opts.pick()
	if err != nil {
		return nil, err
	}
	switch {
	case opts.RootShell, opts.ForTool:
		picked = nil
	case opts.OnlyNamed && !slices.ContainsFunc(picked, link.NeighbourReach.Is):
		opts.Baselines = 0
	}
	c := NewCollector(opts.Node, sink, opts.Causes...)
	c.Strict = opts.FailOn == FailOnWarn
	return &Run{Collector: c, ID: injector.NewRunID(), client: client, opts: opts, picked: picked}, nil
}

// Do is the whole run, from the first event to the verdict. The context is expected to end
// with the run's time (Options.Deadline).
func (r *Run) Do(ctx context.Context) error {
	err := probe.Recovered(func() error { return r.do(ctx) })
	if over, ok := errors.AsType[TimeoutError](context.Cause(ctx)); ok && err != nil && !errors.As(err, new(ui.Exit)) {
		return over // whatever it interrupted
	}
	return err
}

func (r *Run) do(ctx context.Context) error {
	if err := r.Begin(); err != nil {
		return err
	}
	client, snap, err := r.client.Read(ctx, r.opts)
	if err != nil {
		return err
	}
	defer r.WaitForOthers()
	if err := r.AskAPI(ctx, client, snap); err != nil {
		return err
	}
	if err = r.askNode(ctx, client, snap); err == nil {
		err = r.Compare(ctx, client, snap)
	}
	if err = errors.Join(err, r.ReportOthers(snap)); err != nil {
		return err
	}
	if ctx.Err() != nil { // what was seen until then is reported, and that it is not all
		cut := probe.Found(probe.Unknown, report.Interrupted)
		cut.Check = probe.CheckAnswered
		if err := r.Add("", probe.Event{Type: probe.EventResult, Result: &cut}); err != nil {
			return err
		}
	}
	return r.Conclude()
}

// Record runs options and keeps what was seen, with an error what was seen before it. Other
// sinks are shown it as it comes.
func Record(ctx context.Context, client *Client, opts Options, others ...report.Sink) (report.Run, error) {
	kept := &Recorder{Others: others}
	r, err := New(client, opts, kept)
	if err != nil {
		return report.Run{}, err
	}
	ctx, cancel := opts.Deadline(ctx)
	defer cancel()
	if err := r.Do(ctx); err != nil && !errors.As(err, new(ui.Exit)) {
		return kept.Run, err
	}
	return kept.Run, nil
}

// Begin reports which cluster is asked from now on.
func (r *Run) Begin() error {
	at, err := r.client.Asked(r.opts)
	if err != nil {
		return err
	}
	own := probe.Start{V: probe.Version, Version: probe.Release, Run: r.ID, Time: time.Now().UTC(), Cluster: at}
	return r.Add("", probe.Event{Type: probe.EventRun, Start: &own})
}

// AskAPI runs the checks that the API answers over what was read of it, and begins to have another node look at this
// one. It does nothing with the access method that asks no API, for which snap is nil.
func (r *Run) AskAPI(ctx context.Context, client *cluster.Client, snap *cluster.Snapshot) error {
	if snap == nil {
		return nil
	}
	if err := r.askAPI(ctx, snap); err != nil {
		return err
	}
	// Putting a probe on a silent node takes as long as is allowed, and hardly succeeds.
	if r.opts.access().FromOutside() || cluster.KubeletSilent(snap) {
		r.compare(ctx, client, snap)
	} else {
		r.view = r.look(ctx, client, snap)
	}
	return nil
}

// askAPI runs the checks of the run that the API answers over the snapshot.
func (r *Run) askAPI(ctx context.Context, snap *cluster.Snapshot) error {
	var ids []string
	for _, c := range r.picked {
		if c.From == probe.FromAPI {
			ids = append(ids, c.ID)
		}
	}
	return r.answerAPI(ctx, snap, ids, func(ev probe.Event) error { return r.Add(injector.MethodAPI, ev) })
}

// answerAPI runs some checks over a snapshot; each of their events is reported by a function, until that fails.
func (r *Run) answerAPI(
	ctx context.Context, snap *cluster.Snapshot, ids []string, report func(probe.Event) error,
) error {
	if len(ids) == 0 {
		return nil
	}
	var failed error
	runner := probe.Runner{Suite: suiteapi.Checks(snap), Host: &probe.Host{Node: r.Node}, Version: probe.Release}
	runner.Run(ctx, probe.Plan{Run: r.ID, Node: r.Node, Way: injector.MethodAPI, Checks: ids}, func(ev probe.Event) {
		if failed == nil {
			failed = report(ev)
		}
	})
	return failed
}

// askNode puts a probe on the node and has it answer. Where nothing is heard from it, the next access method is tried.
func (r *Run) askNode(ctx context.Context, client *cluster.Client, snap *cluster.Snapshot) error {
	if !r.EntersNode() {
		return nil
	}
	tries, err := r.Attempts(snap, func() bool { return r.alive(ctx, client, snap) })
	if err != nil {
		return err
	}
	return r.AskBy(ctx, tries, snap, func(p *injector.Placed) error { return r.askProbe(ctx, p, snap) })
}

// AskBy puts a probe on the node and calls ask with it. Where ask returns an *UnheardError, the next access method is
// tried. Where none is left, the reasons are reported.
func (r *Run) AskBy(
	ctx context.Context, tries *injector.Fallback, snap *cluster.Snapshot, ask func(*injector.Placed) error,
) error {
	for {
		p, err := r.place(ctx, tries, snap)
		if p == nil || err != nil {
			return err
		}
		err = ask(p)
		unheard, is := errors.AsType[*UnheardError](err)
		switch {
		case !is:
			return err
		case p.Last || ctx.Err() != nil:
			return r.Add(p.Method, Unanswered(unheard.Err))
		}
		tries.Unheard(p, unheard.Err)
	}
}

// askProbe has a probe that runs answer, and removes what was created, however it went. Its error is an *UnheardError
// where nothing at all is heard from the probe.
func (r *Run) askProbe(ctx context.Context, p *injector.Placed, snap *cluster.Snapshot) error {
	asking, end := trace.Span(ctx, "the probe answers")
	defer func() {
		end()
		_, end := trace.Span(ctx, "clean up")
		defer end()
		r.closing(p.Method, p.Session)
	}()
	report := func() error { return r.ReportPlaced(p, snap) }
	whole, err := r.AskPlans(asking, p.Method, snap, p.Session.Ask, report)
	if errors.As(err, new(*UnheardError)) && (p.Last || ctx.Err() != nil) {
		err = cmp.Or(report(), err)
	}
	if !whole || !r.ProvesEncap(snap) {
		return err
	}
	return r.ProveEncap(ctx, p.Session, snap)
}

// Asking sends a request to a probe and shows each event of the answer, until one returns false.
type Asking func(context.Context, probe.Request, func(probe.Event) bool) error

// UnheardError says that a probe ran of which no answer came.
type UnheardError struct{ Err error }

func (e *UnheardError) Error() string { return e.Err.Error() }
func (e *UnheardError) Unwrap() error { return e.Err }

// AskPlans asks a probe by ask what the run wants to know, and then what that calls for, and
// reports the answers after begin. whole is false where that was not all of it, which then has been
// reported. The error is an *UnheardError where nothing came but what the probe says of itself,
// else one of writing the report.
func (r *Run) AskPlans(
	ctx context.Context, method string, snap *cluster.Snapshot, ask Asking, begin func() error,
) (whole bool, err error) {
	whole, err = r.askPlan(ctx, method, r.Plan(method, snap), ask, begin)
	for whole {
		if err := r.reportView(); err != nil {
			return false, err
		}
		next := r.followUp(method, snap)
		if next == nil {
			break
		}
		whole, err = r.askPlan(ctx, method, *next, ask, func() error { return nil })
		if unheard, is := errors.AsType[*UnheardError](err); is {
			return false, r.Add(method, unfollowed(next.Checks, unheard.Err))
		}
	}
	return whole, err
}

// askPlan is AskPlans for one plan.
func (r *Run) askPlan(
	ctx context.Context, method string, plan probe.Plan, ask Asking, begin func() error,
) (whole bool, err error) {
	open := slices.Clone(plan.Checks)
	var writing error
	var own []probe.Event // what the probe says of itself before it answers anything
	heard := false
	err = ask(ctx, probe.Request{Type: probe.RequestPlan, Plan: &plan}, func(ev probe.Event) bool {
		if ev.Start != nil {
			start := *ev.Start
			start.FollowUp = len(r.followed) > 0
			ev.Start = &start
		}
		if !heard && (ev.Start != nil || ev.Type == probe.EventLog) {
			own = append(own, ev)
			return true
		}
		if !heard {
			heard, writing = true, begin()
			for _, before := range own {
				if writing == nil {
					writing = r.Add(method, before)
				}
			}
		}
		if ev.Result != nil {
			open = slices.DeleteFunc(open, func(id string) bool { return id == ev.Result.Check })
		}
		if writing == nil {
			writing = r.Add(method, ev)
		}
		return writing == nil
	})
	switch {
	case writing != nil:
		return false, writing
	case err == nil:
		return true, nil
	case !heard:
		return false, &UnheardError{Err: noAnswerError(ctx, own, err)}
	case len(open) > 0:
		err = fmt.Errorf("%w; without an answer: %s", err, strings.Join(open, ", "))
	}
	return false, r.Add(method, Unanswered(err))
}

// alive reports whether it is worth giving the node more time. One whose kubelet has stopped to renew its lease, or
// that gives its baseline nodes no answer, is not slow, and need not be waited for.
func (r *Run) alive(ctx context.Context, client *cluster.Client, snap *cluster.Snapshot) bool {
	r.compare(ctx, client, snap)
	if r.unrenewed = client.Unrenewed(ctx, snap); r.unrenewed != nil {
		r.client.Progress("the kubelet has not renewed its lease since: no access method is tried again")
		return false
	}
	return r.compared == nil || !r.compared.heardNothing(cluster.KubeletSilent(snap))
}

// Compare asks the API again and healthy nodes too, where what was answered so far calls for it.
func (r *Run) Compare(ctx context.Context, client *cluster.Client, snap *cluster.Snapshot) error {
	if err := r.lookAgain(ctx, client, snap); err != nil {
		return err
	}
	if err := r.reportView(); err != nil {
		return err
	}
	if ctx.Err() == nil && (len(r.opts.Checks) > 0 || troubled(r.Seen, r.suite)) {
		r.compare(ctx, client, snap)
	}
	return nil
}

// compare begins to ask baseline nodes, if they may be asked and are not yet.
func (r *Run) compare(ctx context.Context, client *cluster.Client, snap *cluster.Snapshot) {
	if r.compared == nil && r.Compares(snap) {
		r.compared = r.askBaselines(ctx, client, snap)
	}
}

// ReportOthers waits for the other nodes and reports what they answered, or why there is no view from outside.
func (r *Run) ReportOthers(snap *cluster.Snapshot) error {
	err := r.reportView()
	switch {
	case r.compared != nil:
		err = errors.Join(err, r.reportBaselines(r.compared()))
	case r.view != nil:
		err = errors.Join(err, r.reportBaselines(nil))
	case r.looksFromOutside():
		err = errors.Join(err, r.Add(injector.MethodNeighbour, r.unseen(snap)))
	}
	return err
}

// WaitForOthers waits until no other node is asked any more, and what was put there is removed. It is to be deferred:
// also after a panic nothing stays there.
func (r *Run) WaitForOthers() {
	if r.view != nil {
		r.view.wait()
	}
	if r.compared != nil {
		r.compared()
	}
}
