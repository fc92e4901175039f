package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	suiteapi "github.com/calico-probe/calico-probe/internal/subject/suite/api"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// inFlight is the maximum number of nodes to examine at a time. Each has a pod that starts and waits for its kubelet.
const inFlight = 96

// judged is a node with its verdict.
type judged struct {
	name       string
	attributes []string // NAME=VALUE
	causes     []probe.Cause
	// bad has fail, warn and unknown results: unexplained results, and the evidence of unproven causes
	bad     []probe.Result
	verdict probe.Verdict
}

// maxBad is the maximum number of one check's failed results to keep for a node. Any failed result may show which peers
// are lost.
const maxBad = 100

// noProbe lists the checks that report why a node has no probe results.
var noProbe = []string{probe.CheckPlaced, probe.CheckAnswered}

// unexplained returns one result per check that neither the node's causes nor its peers' causes explain.
func (n judged) unexplained(lost []string, proven map[string]bool) []probe.Result {
	var out []probe.Result
	ids := n.verdict.Unexplained
	if n.verdict.Word == report.WordIncomplete && len(n.causes) == 0 { // keep the reason why no probe answered
		ids = slices.Concat(ids, noProbe)
	}
	for _, id := range ids {
		at := slices.IndexFunc(n.bad, func(r probe.Result) bool {
			return r.Check == id && n.followsFrom(r, lost, proven) == ""
		})
		if at >= 0 {
			out = append(out, n.bad[at])
		}
	}
	return out
}

// followsFrom returns the lost peer whose cause explains one of this node's failed results, or "" if there is none. If
// the result does not name a node, as for a Service or DNS, it may follow from any proven peer.
func (n judged) followsFrom(r probe.Result, lost []string, proven map[string]bool) string {
	named := r.Facts.Str(probe.FactNode) != ""
	at := slices.IndexFunc(lost, func(peer string) bool {
		return (named || proven[peer]) && evidence.FollowsFrom(peer, n.name, r)
	})
	if at < 0 {
		return ""
	}
	return lost[at]
}

// judging is a sink that keeps the results for a node's verdict, and all events until they are reported.
type judging struct {
	judged
	events   []probe.Event
	kept     map[string]int  // bad answers, by check
	unproven map[string]bool // checks that are evidence for unproven causes
}

func newJudging(name string) *judging {
	return &judging{judged: judged{name: name}, kept: map[string]int{}, unproven: map[string]bool{}}
}

func (j *judging) Event(ev probe.Event) error {
	if ev.Node != j.name { // the event is from a baseline node
		ev.For = j.name
		j.events = append(j.events, ev)
		return nil
	}
	switch {
	case ev.Type == probe.EventRun:
		j.attributes = ev.Start.Attributes
	case ev.Type == probe.EventCause && ev.Cause.Confidence != probe.High:
		for _, clue := range ev.Cause.For {
			j.unproven[clue.Check] = true
		}
	case ev.Type == probe.EventVerdict:
		j.verdict = *ev.Verdict
		j.bad = slices.DeleteFunc(j.bad, func(r probe.Result) bool {
			return !slices.Contains(j.verdict.Unexplained, r.Check) && !j.unproven[r.Check] && !slices.Contains(noProbe, r.Check)
		})
	case ev.Type == probe.EventResult && bad(ev.Result.Status):
		if j.kept[ev.Result.Check]++; j.kept[ev.Result.Check] <= maxBad {
			j.bad = append(j.bad, *ev.Result)
		}
	}
	j.events = append(j.events, ev)
	return nil
}

func bad(s probe.Status) bool { return s == probe.Fail || s == probe.Warn || s == probe.Unknown }

// conclude draws the conclusions from the node's results.
func (j *judging) conclude(c *examine.Collector) error {
	err := c.Conclude()
	j.causes = c.Causes
	if errors.As(err, new(ui.Exit)) {
		return nil
	}
	return err
}

// report passes a node's events to the fleet's sink.
func (j *judging) report(to report.Sink) error {
	for _, ev := range j.events {
		if err := to.Event(ev); err != nil {
			return err
		}
	}
	return nil
}

// An asker collects all results of a node.
type asker func(ctx context.Context, n *corev1.Node, start probe.Start) (*judging, error)

// slow is the time after which a running node no longer counts toward the limit: many hanging nodes must not block
// other nodes. At most maxBeside times the limit run at once, because each node holds its results in memory.
const (
	slow      = 8 * time.Second
	maxBeside = 4
)

// judgeAll judges nodes and reports each as a single run does, in the order in which they finish. Once it is stopped,
// or a report cannot be written, it does not start more nodes, and late results do not get a verdict.
func (r *Run) judgeAll(ctx context.Context, ask asker, nodes []*corev1.Node, limit int, start probe.Start,
) (all []judged, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stopped := func() bool { return errors.Is(ctx.Err(), context.Canceled) }
	var turn sync.Mutex // held while a node is reported
	var running probe.Workers
	room, most := make(chan struct{}, limit), make(chan struct{}, maxBeside*limit)
	tell := r.progress(len(nodes))
	for _, n := range nodes {
		most <- struct{}{}
		if room <- struct{}{}; stopped() {
			break
		}
		running.Go(func() {
			defer func() { <-most }()
			leave := sync.OnceFunc(func() { <-room })
			defer leave()
			defer time.AfterFunc(slow, leave).Stop()
			own := start
			own.Attributes = attributesOf(n)
			began := time.Now()
			j, failed := r.judge(ctx, ask, n, own)
			turn.Lock()
			defer turn.Unlock()
			if failed == nil && !stopped() {
				failed = j.report(r.Sink)
				r.done = append(r.done, j.judged)
			}
			if failed != nil {
				stop(failed)
			}
			if !stopped() {
				all = append(all, j.judged)
				tell(j, time.Since(began))
			}
		})
	}
	running.Wait()
	if stopped() {
		return nil, context.Cause(ctx)
	}
	return all, nil
}

// judge judges a node. If that panics, the node is incomplete, and the other nodes continue.
func (r *Run) judge(ctx context.Context, ask asker, n *corev1.Node, start probe.Start) (j *judging, err error) {
	err = probe.Recovered(func() error { j, err = ask(ctx, n, start); return err })
	crash, is := errors.AsType[*probe.Crash](err)
	if !is {
		return j, err
	}
	j = newJudging(n.Name)
	c := examine.NewCollector(n.Name, j, r.opts.Causes...)
	err = c.Add("", probe.Event{Type: probe.EventRun, Start: &start})
	err = cmp.Or(err, c.Add("", examine.Unanswered(fmt.Errorf("this node's run %w", crash))))
	return j, cmp.Or(err, j.conclude(c))
}

// byAPI judges nodes by the survey alone.
func (r *Run) byAPI(s *cluster.Survey) asker {
	return func(ctx context.Context, n *corev1.Node, start probe.Start) (*judging, error) {
		return r.judgeByAPI(ctx, s, n, start, nil)
	}
}

// withoutProbes judges nodes by the survey if the cluster does not accept probes.
func (r *Run) withoutProbes(s *cluster.Survey, refused error) asker {
	return func(ctx context.Context, n *corev1.Node, start probe.Start) (*judging, error) {
		return r.judgeByAPI(ctx, s, n, start, refused)
	}
}

// judgeByAPI judges a node by the survey. late is the reason why a requested probe is missing; nil = no probe was
// requested. It does not send requests, so it still works after the run's timeout.
func (r *Run) judgeByAPI(ctx context.Context, s *cluster.Survey, n *corev1.Node, start probe.Start, late error,
) (*judging, error) {
	checks := slices.DeleteFunc(slices.Clone(r.picked), func(id string) bool {
		return !slices.Contains(cluster.SurveyChecks(), id) // a check for a probe
	})
	j := newJudging(n.Name)
	c := examine.NewCollector(n.Name, j, r.opts.Causes...)
	c.Strict = r.opts.FailOn == examine.FailOnWarn
	failed := c.Add("", probe.Event{Type: probe.EventRun, Start: &start})
	runner := probe.Runner{Suite: suiteapi.Checks(s.Of(n)), Host: &probe.Host{Node: n.Name}, Version: probe.Release}
	plan := probe.Plan{Run: r.ID, Node: n.Name, Method: injector.MethodAPI, Checks: checks}
	runner.Run(context.WithoutCancel(ctx), plan, func(ev probe.Event) {
		failed = cmp.Or(failed, c.Add(injector.MethodAPI, ev))
	})
	if late != nil {
		placed := examine.Unplaced(injector.MethodPod, "", late)
		placed.Result.Saw = "no probe was put there: " + placed.Result.Saw
		failed = cmp.Or(failed, c.Add(injector.MethodPod, placed))
	}
	return j, cmp.Or(failed, j.conclude(c))
}

// byProbe judges nodes by the survey, by their pods, and by the results of a probe on each.
func (r *Run) byProbe(client *examine.Client, wave *examine.Wave, s *cluster.Survey) asker {
	return func(ctx context.Context, n *corev1.Node, start probe.Start) (*judging, error) {
		if ctx.Err() != nil {
			return r.judgeByAPI(ctx, s, n, start, context.Cause(ctx))
		}
		j := newJudging(n.Name)
		run, err := r.one(client, n, j)
		if err == nil {
			err = run.Add("", probe.Event{Type: probe.EventRun, Start: &start})
		}
		if err == nil {
			err = wave.Ask(ctx, run, n)
		}
		if err == nil {
			err = j.conclude(run.Collector)
		}
		return j, err
	}
}

// one returns the run of one of the nodes.
func (r *Run) one(client *examine.Client, n *corev1.Node, sink report.Sink) (*examine.Run, error) {
	opts := r.opts.Options
	opts.Node, opts.Via = n.Name, injector.MethodPod
	opts.Skip = append(slices.Clone(opts.Skip), overlay.EncapProof.ID) // needs two probes that expect each other
	run, err := examine.New(client, opts, sink)
	if err != nil {
		return nil, err
	}
	run.ID = r.ID
	run.Only(r.picked)
	return run, nil
}

// show starts to show which nodes have answered.
func (r *Run) show(nodes []*corev1.Node) {
	if r.Show == nil {
		return
	}
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	r.shown = r.Show(names)
}

// progress shows a waiting user how many nodes answered, what failed on them, and which nodes took longest.
func (r *Run) progress(nodes int) func(j *judging, took time.Duration) {
	const every = 2 * time.Second // between lines
	done, last, slowest := 0, time.Now(), []string{}
	longest := time.Duration(0)
	return func(j *judging, took time.Duration) {
		done++
		if took > longest {
			longest, slowest = took, append(slowest[max(0, len(slowest)-2):], j.name)
		}
		text := fmt.Sprintf("the slowest so far: %s (%s)", strings.Join(slowest, ", "), longest.Round(100*time.Millisecond))
		switch {
		case r.shown != nil:
			r.shown.Done(j.name, j.worst())
			r.client.Progress("%s", text)
		case r.opts.probes() && time.Since(last) > every && done < nodes:
			last = time.Now()
			r.client.Progress("%s", fmt.Sprintf("%d of %d nodes answered; %s", done, nodes, text))
		}
	}
}

// worst returns a node's worst problem in one line: its first cause, or an unexplained result. It returns "" if there
// is none.
func (n judged) worst() string {
	if n.verdict.Word == report.WordHealthy {
		return ""
	}
	says := "no verdict"
	switch {
	case len(n.causes) > 0:
		says = fmt.Sprintf("%s [%s]", cmp.Or(n.causes[0].Title, n.causes[0].Says), n.causes[0].ID)
	case len(n.bad) > 0:
		says = strings.TrimSpace(n.bad[0].Check+" "+n.bad[0].Target) + ": " + n.bad[0].Saw
	case len(n.verdict.Unexplained) > 0:
		says = strings.Join(n.verdict.Unexplained, ", ")
	}
	return fmt.Sprintf("%-10s %s: %s", n.verdict.Word, n.name, says)
}
