// Package examine is one examination of one node, from validated options to the verdict: the
// API is asked, a probe is put on the node, its answers are collected, healthy nodes are
// asked for comparison, and the causes are concluded.
//
// A verb makes Options from its flags and a Client from the program's configuration, and runs
// them:
//
//	run, err := examine.New(client, opts, sink) // a usage error, before anything is asked
//	ctx, cancel := opts.Deadline(ctx)
//	defer cancel()
//	err = run.Do(ctx) // a ui.Exit once the verdict is reported
//
// Where the node's answers come from is a Source: a probe that is put there for this run, or
// the one that package session keeps there. Whatever the source says goes through the run's
// Collector, which cleans and counts it and passes it to the sink.
//
// The package knows no command line: cobra and flags stay in cmd/calico-probe.
package examine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/trace"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
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
	view     *view          // from outside, nil = none
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
	case opts.OnlyNamed && !slices.Contains(picked, checks.NeighbourReach):
		opts.Baselines = 0
	}
	c := NewCollector(opts.Node, sink)
	c.Strict = opts.FailOn == FailOnWarn
	return &Run{Collector: c, ID: injector.NewRunID(), client: client, opts: opts, picked: picked}, nil
}

// Source is where the answers about the node come from: a probe put there for one run, or
// the one that a session keeps there.
type Source interface {
	// Snapshot is what the API says of the node; nil with the access method that asks none.
	Snapshot(ctx context.Context) (*cluster.Client, *cluster.Snapshot, error)
	// Ask has the node answer the checks of a run. alive tells whether the node shows any
	// sign of life. The error is one of writing the report.
	Ask(ctx context.Context, r *Run, snap *cluster.Snapshot, alive func() bool) error
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
	if err := r.Gather(ctx, oneShot{r}); err != nil {
		return err
	}
	if ctx.Err() != nil { // what was seen until then is reported, and that it is not all
		cut := probe.Found(probe.Unknown, "the run was interrupted, so the results are incomplete")
		cut.Check = probe.CheckAnswered
		if err := r.Add("", probe.Event{Type: probe.EventResult, Result: &cut}); err != nil {
			return err
		}
	}
	return r.Conclude()
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

// Gather asks everything there is to ask, and reports the answers.
func (r *Run) Gather(ctx context.Context, from Source) error {
	reading, end := trace.Span(ctx, "read the API")
	client, snap, err := from.Snapshot(reading)
	end()
	if err != nil {
		return err
	}
	if snap != nil {
		if err := r.askAPI(ctx, snap); err != nil {
			return err
		}
	}
	var compared comparison
	compare := func() {
		if compared == nil && r.Compares(snap) {
			compared = r.compare(ctx, client, snap)
		}
	}
	// Putting a probe on a silent node takes as long as is allowed, and hardly succeeds.
	if r.opts.Via == injector.MethodNeighbour || snap != nil && cluster.KubeletSilent(snap) {
		compare()
	} else {
		r.view = r.look(ctx, client, snap)
	}
	defer func() { // also after a panic: what was placed on other nodes is removed
		if r.view != nil {
			r.view.wait()
		}
		if compared != nil {
			compared()
		}
	}()
	// A node that gives its baseline nodes no answer is not slow, and need not be waited for.
	alive := func() bool {
		compare()
		return compared == nil || !compared.heardNothing(cluster.KubeletSilent(snap))
	}
	if r.entersNode() {
		err = from.Ask(ctx, r, snap, alive)
	}
	if err == nil {
		err = r.lookAgain(ctx, client, snap)
	}
	err = errors.Join(err, r.reportView())
	if err == nil && ctx.Err() == nil && (len(r.opts.Checks) > 0 || troubled(r.Seen)) {
		compare()
	}
	switch {
	case compared != nil:
		err = errors.Join(err, r.reportBaselines(compared()))
	case r.view != nil:
		err = errors.Join(err, r.reportBaselines(nil))
	case r.looksFromOutside():
		err = errors.Join(err, r.Add(injector.MethodNeighbour, r.unseen(snap)))
	}
	return err
}

// askAPI runs the checks that the API answers over the snapshot.
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
	runner := probe.Runner{Suite: cluster.Checks(snap), Host: &probe.Host{Node: r.Node}, Version: probe.Release}
	runner.Run(ctx, probe.Plan{Run: r.ID, Node: r.Node, Way: injector.MethodAPI, Checks: ids}, func(ev probe.Event) {
		if failed == nil {
			failed = report(ev)
		}
	})
	return failed
}

// entersNode tells whether a probe is to be put on the node itself.
func (r *Run) entersNode() bool {
	return r.opts.Via != injector.MethodAPI && r.opts.Via != injector.MethodNeighbour &&
		(len(r.NodeChecks()) > 0 || slices.Contains(r.picked, checks.EncapProof))
}

// Picked are the IDs of all checks of the run.
func (r *Run) Picked() []string { return CheckIDs(r.picked) }

// NodeChecks are the IDs of the checks that one probe on the node answers.
func (r *Run) NodeChecks() []string {
	ids := CheckIDs(ByOneProbe(r.picked))
	if r.opts.Via == injector.MethodLocal && slices.Contains(r.picked, checks.EncapProof) {
		ids = append(ids, checks.EncapProof.ID)
	}
	return ids
}

// ByOneProbe are those of some checks that one probe on the node answers: the proof of encapsulation takes two, and
// whether a node can be reached it cannot tell itself.
func ByOneProbe(all []*probe.Check) []*probe.Check {
	var out []*probe.Check
	for _, c := range all {
		if c.OnNode() && c != checks.NeighbourReach && c != checks.EncapProof {
			out = append(out, c)
		}
	}
	return out
}

// Capabilities are the Linux capabilities that the checks take.
func (r *Run) Capabilities() []string { return probe.Capabilities(r.picked) }

// Owes are the IDs of the checks that the node itself, or the API about it, has to answer.
func (r *Run) Owes(snap *cluster.Snapshot) []string {
	var ids []string
	for _, check := range r.picked {
		if check.From == probe.FromAPI && snap != nil {
			ids = append(ids, check.ID)
		}
	}
	if !r.entersNode() {
		return ids
	}
	ids = append(ids, r.NodeChecks()...)
	if r.ProvesEncap(snap) && !slices.Contains(ids, checks.EncapProof.ID) {
		ids = append(ids, checks.EncapProof.ID)
	}
	return ids
}

// oneShot is a probe that is put on the node for one run.
type oneShot struct{ r *Run }

func (o oneShot) Snapshot(ctx context.Context) (*cluster.Client, *cluster.Snapshot, error) {
	return o.r.client.Read(ctx, o.r.opts)
}

func (o oneShot) Ask(ctx context.Context, r *Run, snap *cluster.Snapshot, alive func() bool) error {
	talk := func(p injector.Placed) error { return r.talk(ctx, p, snap) }
	return r.Place(ctx, snap, alive, nil, talk)
}

// NoSuchNode makes a misnamed node the user's mistake, not the tool's.
func NoSuchNode(err error) error {
	if _, ok := err.(*cluster.UnknownNodeError); ok {
		return ui.BadUsage("%w", err)
	}
	return err
}
