// Package fleet examines several nodes in one run. A few list calls read all nodes from the API. The checks and rules
// of a single run judge each node. Nodes with the same cause form a group. Package examine places the probes. Package
// fleet also tries the paths between nodes. Package mesh judges these paths.
//
//	run, err := fleet.New(client, opts) // a usage error, before any request
//	run.Sink = sink
//	err = run.Do(ctx) // a ui.Exit once the verdict is reported
//
// The sink receives each node's events in the same form as those of a single run, one node at a time. The groups
// follow, and finally the fleet's verdict, which has no node.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// Options describe which nodes to examine, which checks to run, and how. Exactly one of Nodes, Select and All is set,
// and One.Node is empty.
type Options struct {
	examine.Options
	Nodes  []string // these
	Select string   // a label selector, as in kubectl's -l
	All    bool     // all nodes
	// If All and Few are set, probes run on only a few nodes in each zone. These are taken from Among or, if Among is
	// empty, from the nodes with a fault in the API.
	Few   bool
	Among []string
	// Resume is an interrupted run. The nodes that it judged are not examined again.
	Resume *report.Saved
	// If Whole is set and a list of the whole cluster failed (cluster.Survey.Unread), the run does not judge any node.
	Whole bool
}

// methods are the access methods for several nodes. auto creates a pod on each node.
var methods = []string{examine.ViaAuto, injector.MethodPod, injector.MethodAPI}

// Run is one examination of several nodes.
type Run struct {
	ID     string
	client *examine.Client
	opts   Options
	picked []string // IDs of checks
	wanted labels.Selector
	Sink   report.Sink
	// Show, if set, shows a person how many of these nodes have answered. The display starts after the last question to
	// the person, and closes before the verdict.
	Show  func(nodes []string) *ui.Watch
	shown *ui.Watch // nil = nothing is shown
	began time.Time
	done  []judged // judged and reported
}

// New returns the Run for some options. Its error is a ui.UsageError.
func New(client *examine.Client, opts Options) (*Run, error) {
	r, err := choosing(client, opts)
	if err != nil {
		return nil, err
	}
	r.picked, err = opts.Picked()
	return r, err
}

// choosing returns a Run that has chosen its nodes but not yet its checks.
func choosing(client *examine.Client, opts Options) (*Run, error) {
	r := &Run{ID: injector.NewRunID(), client: client, opts: opts, began: time.Now()}
	said := 0
	for _, used := range []bool{len(opts.Nodes) > 0, opts.Select != "", opts.All} {
		if used {
			said++
		}
	}
	if said != 1 {
		return nil, ui.BadUsage("--node, --selector and --all-nodes exclude each other: use one of them")
	}
	if !slices.Contains(methods, opts.Via) {
		return nil, ui.BadUsage("--via %s works for one node only: for several nodes use %s", opts.Via, strings.Join(methods, " or "))
	}
	var err error
	if r.wanted, err = labels.Parse(opts.Select); err != nil {
		return nil, ui.BadUsage("--selector %q: %w", opts.Select, err)
	}
	return r, nil
}

// Picked returns the IDs of the checks to run: checks that the API answers for all nodes at once and, if the run uses
// probes, also checks that a single probe can answer.
func (o Options) Picked() ([]string, error) {
	picked, err := examine.Select(o.Checks, o.Skip, o.Profile)
	if err != nil {
		return nil, ui.BadUsage("%w; 'calico-probe checks' lists checks", err)
	}
	included := cluster.SurveyChecks()
	if o.probes() {
		included = append(cluster.AboutChecks(), examine.CheckIDs(examine.ByOneProbe(picked))...)
	}
	var out, cannot []string
	for _, c := range picked {
		if slices.Contains(included, c.ID) {
			out = append(out, c.ID)
		} else {
			cannot = append(cannot, c.ID)
		}
	}
	switch {
	case len(o.Checks) > 0 && len(cannot) > 0:
		return nil, ui.BadUsage("%s works for one node at a time: omit it, or test one node with --node",
			strings.Join(cannot, ", "))
	case len(out) == 0:
		return nil, ui.BadUsage("--checks and --skip leave no check to run")
	}
	return out, nil
}

// probes reports whether the run examines the nodes themselves.
func (o Options) probes() bool { return injector.AccessOf(o.Via).EntersNode() }

// Do does the whole run, from the first event to the fleet's verdict.
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
	client := r.client.Busy()
	reader, err := client.Reader()
	if err != nil {
		return err
	}
	client.Progress("reading all nodes from the API")
	survey, err := reader.ReadAll(ctx)
	if err != nil {
		return err
	}
	if err := r.complete(survey); err != nil {
		return err
	}
	nodes, err := r.choose(survey)
	if err != nil {
		return err
	}
	if err := r.fits(own); err != nil {
		return err
	}
	before, nodes := r.resumed(nodes)
	all, err := replay(before, r.Sink, r.opts.Causes)
	if err != nil {
		return err
	}
	r.done = slices.Clone(all)
	if len(nodes) > 0 {
		included, err := r.ask(ctx, client, reader, survey, nodes, own)
		r.shown.Close() // the report replaces it
		if err != nil {
			return err
		}
		all = append(all, included...)
	}
	return conclude(all, r.Sink, time.Since(r.began), false)
}

// complete returns an error if the run needs all lists to judge nodes, and one of them failed.
func (r *Run) complete(survey *cluster.Survey) error {
	if unread := survey.Unread(); unread != nil && r.opts.Whole {
		return fmt.Errorf("no node is judged, because the API answered incompletely: %w", unread)
	}
	return nil
}

// ask judges nodes by the survey and, if the run uses probes, by a probe on each node.
func (r *Run) ask(ctx context.Context, client *examine.Client, reader *cluster.Client, survey *cluster.Survey,
	nodes []*corev1.Node, start probe.Start,
) (all []judged, err error) {
	if !r.opts.probes() {
		return r.judgeAll(ctx, r.byAPI(survey), nodes, 1, start)
	}
	probed, rest := nodes, []*corev1.Node(nil)
	if r.opts.Select != "" || r.opts.Few {
		if probed, rest, err = r.suspects(ctx, survey, nodes, start); err != nil {
			return nil, err
		}
	}
	if len(probed) == 0 {
		return r.judgeAll(ctx, r.byAPI(survey), rest, 1, start)
	}
	first, err := r.one(client, probed[0], nil)
	if err != nil {
		return nil, err
	}
	if err := client.Agree(ctx, len(probed)); err != nil {
		return nil, err
	}
	r.show(nodes)
	reader.ReadShared(ctx, survey)
	if err := r.complete(survey); err != nil {
		return nil, err
	}
	client.Progress("putting probes on %d of %d nodes", len(probed), len(nodes))
	wave, err := client.StartWave(ctx, first, reader, survey, probed)
	refused, is := errors.AsType[*injector.PlacementError](err)
	switch {
	case is && r.opts.Via == examine.ViaAuto: // as in a single-node run, report the API's results
		return r.judgeAll(ctx, r.withoutProbes(survey, refused), nodes, 1, start)
	case is:
		return nil, refused.And("--via api creates nothing")
	case err != nil:
		return nil, err
	}
	defer func() {
		if left := wave.Close(); left != nil {
			client.Note("cleaning up: %v", left)
		}
	}()
	all, err = r.judgeAll(ctx, r.byProbe(client, wave, survey), probed, inFlight, start)
	if err != nil {
		return nil, err
	}
	others, err := r.judgeAll(ctx, r.byAPI(survey), rest, 1, start)
	return append(all, others...), err
}

// Unfinished reports that the run was interrupted, and reports the result for the nodes that were judged so far.
func (r *Run) Unfinished(why string) error {
	text := "the run did not finish: " + why
	if err := r.Sink.Event(probe.Event{Type: probe.EventLog, Text: text}); err != nil {
		return err
	}
	if err := conclude(r.done, r.Sink, time.Since(r.began), true); !errors.As(err, new(ui.Exit)) {
		return err
	}
	return nil
}

// choose returns the selected nodes of a cluster.
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
		return nil, ui.BadUsage("0 of %d nodes match --selector %s", len(s.Nodes), r.opts.Select)
	}
	return out, nil
}

// meant reports whether the typed text is the node's name or one of its addresses.
func meant(n *corev1.Node, typed string) bool {
	addr, err := netip.ParseAddr(typed)
	return n.Name == typed || err == nil && slices.Contains(cluster.InternalIPs(n), addr)
}

// replay reports saved runs of single nodes. Each is reported with this version's conclusions and an operator's causes.
func replay(runs []report.Run, sink report.Sink, theirs []*diagnose.Rule) ([]judged, error) {
	var all []judged
	for _, run := range runs {
		j := newJudging(run.Node)
		c, err := examine.Replay(run, j, theirs...)
		if err == nil {
			err = j.conclude(c)
		}
		if err == nil {
			err = j.report(sink)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, j.judged)
	}
	return all, nil
}

// Replay reports a saved run over several nodes, and recomputes its causes and groups.
func Replay(saved report.Saved, sink report.Sink, theirs ...*diagnose.Rule) error {
	if err := sink.Event(probe.Event{Type: probe.EventRun, Start: saved.Fleet}); err != nil {
		return err
	}
	all, err := replay(saved.Runs, sink, theirs)
	if err != nil {
		return err
	}
	return conclude(all, sink, saved.Elapsed, saved.Cut)
}

// conclude reports the groups and the fleet's verdict, which is the worst verdict of any node. If nodes or the groups
// are missing, the verdict is at best incomplete.
func conclude(all []judged, sink report.Sink, took time.Duration, cut bool) error {
	groups, crash := grouped(all)
	if crash != nil {
		cut = true
		text := fmt.Sprintf("the nodes' common causes are unknown: grouping %v", crash)
		if err := sink.Event(probe.Event{Type: probe.EventLog, Text: text}); err != nil {
			return err
		}
	}
	for _, g := range groups {
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

// worse reports whether one verdict is worse than another.
func worse(a, b string) bool {
	return slices.Index(report.Verdicts(), a) > slices.Index(report.Verdicts(), b)
}
