// Package fleet is one examination of several nodes: what the API says of all of them is read by a few lists, each
// node is judged by the same checks and rules as in a run of its own, and nodes with the same cause are put together.
//
//	run, err := fleet.New(client, opts) // a usage error, before anything is asked
//	run.Sink = sink
//	err = run.Do(ctx) // a ui.Exit once the verdict is reported
//
// The sink sees the events of each node as those of a run of its own, one node after the other, then the groups, and
// last a verdict without a node, which is that of the fleet.
package fleet

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/examine"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/ui"
)

// Options say which nodes are examined, and what is asked. Of Select's nodes those of Nodes and of All are none: one
// of the three is set.
type Options struct {
	Nodes  []string // these
	Select string   // those with these labels, as kubectl's -l
	All    bool     // all there are

	Via     string   // only api
	Profile string   // how much is asked where Checks is empty
	Checks  []string // only these: IDs, prefixes, globs or tags
	Skip    []string // all but these
	FailOn  string   // fail, or warn: warnings have an exit code of their own
}

// Run is one examination of several nodes.
type Run struct {
	ID     string
	client *examine.Client
	opts   Options
	picked []string // IDs of checks
	wanted labels.Selector
	Sink   report.Sink
	began  time.Time
}

// judged is a node once it is judged.
type judged struct {
	name       string
	attributes []string // NAME=VALUE
	causes     []probe.Cause
	bad        []probe.Result // answers that are fail, warn or unknown
	verdict    probe.Verdict
}

// unexplained are the answers that no cause explains, one for each check.
func (n judged) unexplained() []probe.Result {
	var out []probe.Result
	for _, id := range n.verdict.Unexplained {
		if i := slices.IndexFunc(n.bad, func(r probe.Result) bool { return r.Check == id }); i >= 0 {
			out = append(out, n.bad[i])
		}
	}
	return out
}

// New returns the Run that options stand for. Its error is a ui.UsageError.
func New(client *examine.Client, opts Options) (*Run, error) {
	r := &Run{ID: injector.NewRunID(), client: client, opts: opts, began: time.Now()}
	ways := 0
	for _, used := range []bool{len(opts.Nodes) > 0, opts.Select != "", opts.All} {
		if used {
			ways++
		}
	}
	if ways != 1 {
		return nil, ui.BadUsage("--node, --selector and --all-nodes each say which nodes: use one of them")
	}
	if opts.Via != injector.MethodAPI {
		return nil, ui.BadUsage("several nodes are asked by the API alone: add --via api, or test one node with --node")
	}
	var err error
	if r.wanted, err = labels.Parse(opts.Select); err != nil {
		return nil, ui.BadUsage("--selector %q: %w", opts.Select, err)
	}
	r.picked, err = opts.pick()
	return r, err
}

// pick are the IDs of the checks that are asked: those that are answered for all nodes at once.
func (o Options) pick() ([]string, error) {
	picked, err := examine.Select(o.Checks, o.Skip, o.Profile)
	if err != nil {
		return nil, ui.BadUsage("%w; 'calico-probe checks' lists them", err)
	}
	var out, cannot []string
	for _, c := range picked {
		if slices.Contains(cluster.SurveyChecks(), c.ID) {
			out = append(out, c.ID)
		} else {
			cannot = append(cannot, c.ID)
		}
	}
	switch {
	case len(o.Checks) > 0 && len(cannot) > 0:
		return nil, ui.BadUsage("%s cannot be asked about several nodes at once: leave it out, or test one node with --node",
			strings.Join(cannot, ", "))
	case len(out) == 0:
		return nil, ui.BadUsage("--checks and --skip leave no check to run")
	}
	return out, nil
}

// Do is the whole run, from the first event to the fleet's verdict.
func (r *Run) Do(ctx context.Context) error {
	at, err := r.client.Cluster()
	if err != nil {
		return err
	}
	own := probe.Start{V: probe.Version, Version: probe.Release, Run: r.ID, Time: r.began.UTC(), Cluster: at,
		Checks: r.picked}
	if err := r.Sink.Event(probe.Event{Type: probe.EventRun, Start: &own}); err != nil {
		return err
	}
	reader, err := r.client.Reader()
	if err != nil {
		return err
	}
	r.client.Progress("asking the API about all nodes")
	survey, err := reader.ReadAll(ctx)
	if err != nil {
		return err
	}
	nodes, err := r.choose(survey)
	if err != nil {
		return err
	}
	var all []judged
	for _, n := range nodes {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		j, err := r.judge(ctx, survey, n, own)
		if err != nil {
			return err
		}
		all = append(all, j)
	}
	return conclude(all, r.Sink, time.Since(r.began), false)
}

// Unfinished reports that the run did not come to its end.
func (r *Run) Unfinished(why string) error {
	text := "the run did not come to its end: " + why
	v := probe.Verdict{Word: report.WordIncomplete, Exit: report.ExitIncomplete, Counts: probe.Counts{},
		Elapsed: time.Since(r.began)}
	return errors.Join(r.Sink.Event(probe.Event{Type: probe.EventLog, Text: text}),
		r.Sink.Event(probe.Event{Type: probe.EventVerdict, Verdict: &v}))
}

// choose are the nodes of a cluster that are wanted.
func (r *Run) choose(s *cluster.Survey) ([]*corev1.Node, error) {
	var out []*corev1.Node
	for i := range s.Nodes {
		n := &s.Nodes[i]
		is := func(typed string) bool { return meant(n, typed) }
		if slices.ContainsFunc(r.opts.Nodes, is) || len(r.opts.Nodes) == 0 && r.wanted.Matches(labels.Set(n.Labels)) {
			out = append(out, n)
		}
	}
	for _, typed := range r.opts.Nodes {
		if !slices.ContainsFunc(out, func(n *corev1.Node) bool { return meant(n, typed) }) {
			return nil, examine.NoSuchNode(s.Unknown(typed))
		}
	}
	if len(out) == 0 {
		return nil, ui.BadUsage("no node of %d has the labels of --selector %s", len(s.Nodes), r.opts.Select)
	}
	return out, nil
}

// meant tells whether a node is meant by what was typed: its name, or an address of its.
func meant(n *corev1.Node, typed string) bool {
	addr, err := netip.ParseAddr(typed)
	return n.Name == typed || err == nil && slices.Contains(cluster.InternalIPs(n), addr)
}

// judge asks one node's checks of what was read, and reports it as a run of its own.
func (r *Run) judge(ctx context.Context, s *cluster.Survey, n *corev1.Node, of probe.Start) (judged, error) {
	of.Attributes = attributesOf(n)
	out := &judging{judged: judged{name: n.Name}, sink: r.Sink}
	c := examine.NewCollector(n.Name, out)
	c.Strict = r.opts.FailOn == examine.FailOnWarn
	failed := c.Add("", probe.Event{Type: probe.EventRun, Start: &of})
	runner := probe.Runner{Suite: cluster.Checks(s.Of(n)), Host: &probe.Host{Node: n.Name}, Version: probe.Release}
	plan := probe.Plan{Run: r.ID, Node: n.Name, Way: injector.MethodAPI, Checks: r.picked}
	runner.Run(ctx, plan, func(ev probe.Event) {
		if failed == nil && !ofAnother(ev) {
			failed = c.Add(injector.MethodAPI, ev)
		}
	})
	if failed != nil {
		return out.judged, failed
	}
	return out.of(c)
}

// ofAnother tells whether an event says what is wrong with another node, which is judged by itself.
func ofAnother(ev probe.Event) bool {
	return ev.Result != nil && ev.Result.Facts.Str(probe.FactReason) == string(facts.ReasonPeer)
}

// judging is a sink that keeps what a node is judged by, beside the fleet's.
type judging struct {
	judged
	sink report.Sink
}

func (j *judging) Event(ev probe.Event) error {
	switch {
	case ev.Type == probe.EventRun:
		j.attributes = ev.Start.Attributes
	case ev.Type == probe.EventVerdict:
		j.verdict = *ev.Verdict
	case ev.Type == probe.EventResult && bad(ev.Result.Status):
		j.bad = append(j.bad, *ev.Result)
	}
	return j.sink.Event(ev)
}

// of concludes what was collected of the node.
func (j *judging) of(c *examine.Collector) (judged, error) {
	if err := c.Conclude(); err != nil && !errors.As(err, new(ui.Exit)) {
		return j.judged, err
	}
	j.causes = c.Causes
	return j.judged, nil
}

// Replay reports a saved run over several nodes, whose causes and groups are concluded anew.
func Replay(saved report.Saved, sink report.Sink) error {
	if err := sink.Event(probe.Event{Type: probe.EventRun, Start: saved.Fleet}); err != nil {
		return err
	}
	var all []judged
	for _, run := range saved.Runs {
		out := &judging{judged: judged{name: run.Node}, sink: sink}
		c, err := examine.Replay(run, out)
		if err != nil {
			return err
		}
		j, err := out.of(c)
		if err != nil {
			return err
		}
		all = append(all, j)
	}
	return conclude(all, sink, saved.Elapsed, saved.Cut)
}

func bad(s probe.Status) bool { return s == probe.Fail || s == probe.Warn || s == probe.Unknown }

// conclude reports the groups, and what the fleet comes to: the worst that any of its nodes does; where nodes are
// missing, no better than incomplete.
func conclude(all []judged, sink report.Sink, took time.Duration, cut bool) error {
	for _, g := range group(all) {
		if err := sink.Event(probe.Event{Type: probe.EventGroup, Group: &g}); err != nil {
			return err
		}
	}
	v := probe.Verdict{Word: report.WordHealthy, Counts: probe.Counts{}, Elapsed: took}
	if cut {
		v.Word, v.Exit = report.WordIncomplete, report.ExitIncomplete
	}
	for _, n := range all {
		for status, count := range n.verdict.Counts {
			v.Counts[status] += count
		}
		v.Strict = v.Strict || n.verdict.Strict
		v.Exit = examine.WorseExit(v.Exit, n.verdict.Exit)
		if worse(n.verdict.Word, v.Word) {
			v.Word = n.verdict.Word
		}
	}
	if err := sink.Event(probe.Event{Type: probe.EventVerdict, Verdict: &v}); err != nil {
		return err
	}
	if v.Exit != report.ExitHealthy {
		return ui.Exit(v.Exit)
	}
	return nil
}

// worse tells whether one verdict's word is worse than another's.
func worse(a, b string) bool {
	return slices.Index(report.Verdicts(), a) > slices.Index(report.Verdicts(), b)
}
