// Package examine runs one examination of one node, from validated options to the verdict. Run.do below has all steps,
// in this order. Steps with a file in brackets are in that file, the others below Run.do:
//
//	Begin         reports which cluster the run queries
//	Client.Read   reads the node from the API: one cluster.Snapshot (client.go)
//	AskAPI        runs the API checks; meanwhile another node tests this one (outside.go)
//	askNode       puts a probe on the node (place.go), which answers its plan and the follow-up checks (followup.go)
//	Compare       runs failed checks on healthy nodes too (baseline.go)
//	ReportOthers  reports the other nodes' answers
//	Conclude      finds the causes and the verdict (collect.go)
//
// A verb creates Options from its flags and a Client from the program's configuration, and starts a run:
//
//	run, err := examine.New(client, opts, sink) // a usage error, before any request
//	ctx, cancel := opts.Deadline(ctx)
//	defer cancel()
//	err = run.Do(ctx) // a ui.Exit once the verdict is reported
//
// A session (package session) keeps a probe on each node, and takes the same steps with its own askNode. A run
// over many nodes (package fleet) examines each by Wave.Ask. Every answer goes through the run's Collector, which
// cleans and counts it and passes it to the sink.
//
// The package does not handle the command line: cobra and flags are in cmd/calico-probe.
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

	followed []*probe.Check // the follow-up checks in picked
	about    string         // the other node for the proof of encapsulation; "" = any

	unrenewed *cluster.Snapshot // shows that the kubelet stopped renewing its lease; nil = not seen

	among    map[string]bool // the only nodes that may serve as baseline; nil = all
	view     *view           // the view from outside; nil = none
	compared comparison      // the comparison with baseline nodes; nil = not started yet
	closing  probe.Workers   // removes the objects of probes that have answered
}

// New completes and validates the options, and returns their Run.
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

// Do does the whole run, from the first event to the verdict. The context should end with the run's timeout
// (Options.Deadline).
func (r *Run) Do(ctx context.Context) error {
	err := probe.Recovered(func() error { return r.do(ctx) })
	if over, ok := errors.AsType[TimeoutError](context.Cause(ctx)); ok && err != nil && !errors.As(err, new(ui.Exit)) {
		return over // return this instead of the interrupted call's error
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
	defer r.Wait()
	if err := r.AskAPI(ctx, client, snap); err != nil {
		return err
	}
	if err = r.askNode(ctx, client, snap); err == nil {
		err = r.Compare(ctx, client, snap)
	}
	if err = errors.Join(err, r.ReportOthers(snap)); err != nil {
		return err
	}
	if ctx.Err() != nil { // report the results so far, and that they are incomplete
		cut := probe.Found(probe.Unknown, report.Interrupted)
		cut.Check = probe.CheckAnswered
		if err := r.Add("", probe.Event{Type: probe.EventResult, Result: &cut}); err != nil {
			return err
		}
	}
	return r.Conclude()
}

// Record does a run with these options and returns the recorded run, even together with an error. Other sinks receive
// each event as it arrives.
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

// Begin reports which cluster the run queries.
func (r *Run) Begin() error {
	at, err := r.client.ClusterOf(r.opts)
	if err != nil {
		return err
	}
	own := probe.Start{V: probe.Version, Version: probe.Release, Run: r.ID, Time: time.Now().UTC(), Cluster: at}
	return r.Add("", probe.Event{Type: probe.EventRun, Start: &own})
}

// AskAPI runs the API checks on the snapshot, and starts the view from another node. If the access method does not use
// the API, snap is nil and AskAPI does nothing.
func (r *Run) AskAPI(ctx context.Context, client *cluster.Client, snap *cluster.Snapshot) error {
	if snap == nil {
		return nil
	}
	if err := r.askAPI(ctx, snap); err != nil {
		return err
	}
	// Placing a probe on a silent node takes the full time limit and hardly ever succeeds.
	if r.opts.access().FromOutside() || cluster.KubeletSilent(snap) {
		r.compare(ctx, client, snap)
	} else {
		r.view = r.look(ctx, client, snap)
	}
	return nil
}

// askAPI runs the run's API checks on the snapshot.
func (r *Run) askAPI(ctx context.Context, snap *cluster.Snapshot) error {
	var ids []string
	for _, c := range r.picked {
		if c.From == probe.FromAPI {
			ids = append(ids, c.ID)
		}
	}
	return r.answerAPI(ctx, snap, ids, func(ev probe.Event) error { return r.Add(injector.MethodAPI, ev) })
}

// answerAPI runs some checks on a snapshot. It passes each event to a function, until that function fails.
func (r *Run) answerAPI(
	ctx context.Context, snap *cluster.Snapshot, ids []string, report func(probe.Event) error,
) error {
	if len(ids) == 0 {
		return nil
	}
	var failed error
	runner := probe.Runner{Suite: suiteapi.Checks(snap), Host: &probe.Host{Node: r.Node}, Version: probe.Release}
	runner.Run(ctx, probe.Plan{Run: r.ID, Node: r.Node, Method: injector.MethodAPI, Checks: ids}, func(ev probe.Event) {
		if failed == nil {
			failed = report(ev)
		}
	})
	return failed
}

// askNode puts a probe on the node and gets its answer. If the probe does not send an answer, askNode tries the next
// access method.
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

// AskBy puts a probe on the node and calls ask with it. If ask returns a *SilentProbeError, AskBy tries the next access
// method. If no method is left, it reports the reasons.
func (r *Run) AskBy(
	ctx context.Context, tries *injector.Fallback, snap *cluster.Snapshot, ask func(*injector.Placed) error,
) error {
	for {
		p, err := r.place(ctx, tries, snap)
		if p == nil || err != nil {
			return err
		}
		err = ask(p)
		unheard, is := errors.AsType[*SilentProbeError](err)
		switch {
		case !is:
			return err
		case p.Last || ctx.Err() != nil:
			return r.Add(p.Method, Unanswered(unheard.Err))
		}
		tries.NoAnswer(p, unheard.Err)
	}
}

// askProbe queries a running probe, and then starts to remove the created objects. If the probe does not send an
// answer, the error is a *SilentProbeError.
func (r *Run) askProbe(ctx context.Context, p *injector.Placed, snap *cluster.Snapshot) error {
	defer r.close(ctx, p.Method, p.Session)
	asking, end := trace.Span(ctx, "the probe answers")
	defer end()
	report := func() error { return r.ReportPlaced(p, snap) }
	whole, err := r.AskPlans(asking, p.Method, snap, p.Session.Ask, report)
	if errors.As(err, new(*SilentProbeError)) && (p.Last || ctx.Err() != nil) {
		err = cmp.Or(report(), err)
	}
	if !whole || !r.ProvesEncap(snap) {
		return err
	}
	return r.ProveEncap(ctx, p.Session, snap)
}

// Asking sends a request to a probe and passes on each event of the answer, until the function returns false.
type Asking func(context.Context, probe.Request, func(probe.Event) bool) error

// SilentProbeError reports that a probe ran but did not send an answer.
type SilentProbeError struct{ Err error }

func (e *SilentProbeError) Error() string { return e.Err.Error() }
func (e *SilentProbeError) Unwrap() error { return e.Err }

// AskPlans uses ask to send the run's plan to a probe, and then the follow-up checks. It calls begin, then reports the
// answers. whole is false if answers are missing. In this case AskPlans has already reported that. The error is a
// *SilentProbeError if the probe sent only events about itself, otherwise an error from writing the report.
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
		if unheard, is := errors.AsType[*SilentProbeError](err); is {
			return false, r.Add(method, unfollowed(next.Checks, unheard.Err))
		}
	}
	return whole, err
}

// askPlan does the same as AskPlans for one plan.
func (r *Run) askPlan(
	ctx context.Context, method string, plan probe.Plan, ask Asking, begin func() error,
) (whole bool, err error) {
	open := slices.Clone(plan.Checks)
	var writing error
	var own []probe.Event // the probe's events about itself, before any answer
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
		return false, &SilentProbeError{Err: noAnswerError(ctx, own, err)}
	case len(open) > 0:
		err = fmt.Errorf("%w; unanswered: %s", err, strings.Join(open, ", "))
	}
	return false, r.Add(method, Unanswered(err))
}

// alive reports whether to give the node more time. If the kubelet stopped renewing its lease, or if baseline nodes
// cannot reach the node, waiting does not help.
func (r *Run) alive(ctx context.Context, client *cluster.Client, snap *cluster.Snapshot) bool {
	r.compare(ctx, client, snap)
	if r.unrenewed = client.Unrenewed(ctx, snap); r.unrenewed != nil {
		r.client.Progress("the kubelet has not renewed its lease since: no access method is tried again")
		return false
	}
	return r.compared == nil || !r.compared.heardNothing(cluster.KubeletSilent(snap))
}

// Compare queries the API again and runs checks on healthy nodes, if the results so far require it.
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

// compare starts the baseline nodes, if they are allowed and not started yet.
func (r *Run) compare(ctx context.Context, client *cluster.Client, snap *cluster.Snapshot) {
	if r.compared == nil && r.Compares(snap) {
		r.compared = r.askBaselines(ctx, client, snap)
	}
}

// ReportOthers waits for the other nodes and reports their answers, or why there is no view from outside.
func (r *Run) ReportOthers(snap *cluster.Snapshot) error {
	err := r.reportView()
	switch {
	case r.compared != nil:
		err = errors.Join(err, r.reportBaselines(r.compared()))
	case r.view != nil:
		err = errors.Join(err, r.reportBaselines(nil))
	case r.looksFromOutside():
		err = errors.Join(err, r.Add(probe.MethodBaseline, r.unseen(snap)))
	}
	return err
}

// Wait waits until all other nodes are done, and all probes are removed. Call it in a defer statement: then nothing is
// left behind even after a panic.
func (r *Run) Wait() {
	defer r.closing.Wait()
	if r.view != nil {
		r.view.wait()
	}
	if r.compared != nil {
		r.compared()
	}
}
