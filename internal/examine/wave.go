package examine

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/install"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/trace"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// MostStreams is the maximum number of logs that a wave reads at a time, and of probes that it keeps. Each needs a
// connection through the API server to a kubelet.
const MostStreams = 48

// waveStart is the time limit for a probe of a wave to start. --start-timeout extends it.
const waveStart = 40 * time.Second

// A Wave examines many nodes. It reads the API once for all nodes, and starts a pod on each node, which answers its
// plan and exits.
type Wave struct {
	reader   *cluster.Client
	survey   *cluster.Survey
	pods     *injector.Wave
	space    string // the pods' namespace
	logs     chan struct{}
	deepened atomic.Int32 // number of nodes on which deepen took further steps
	// among are the wave's nodes. No other node gets a probe, so the user has agreed to each.
	among map[string]bool
}

// StartWave prepares what many nodes' probes share. r is the first node's run. If it returns Agree's error, or an
// *injector.PlacementError because no namespace accepts the pods, it has not created anything.
func (c *Client) StartWave(ctx context.Context, r *Run, reader *cluster.Client, s *cluster.Survey,
	nodes []*corev1.Node,
) (*Wave, error) {
	if err := c.Agree(ctx, len(nodes)); err != nil {
		return nil, err
	}
	writer, err := c.Writer()
	if err != nil {
		return nil, err
	}
	w := &Wave{reader: reader, survey: s, logs: make(chan struct{}, MostStreams), among: map[string]bool{}}
	for _, n := range nodes {
		w.among[n.Name] = true
	}
	common := r.Placement(injector.MethodPod, s.Of(nodes[0]))
	spaces := []string{common.Namespace}
	if c.Namespace == "" && common.Namespace != install.Namespace {
		spaces = append(spaces, install.Namespace)
	}
	var refused []error
	for _, w.space = range spaces {
		common.Namespace = w.space
		if err = writer.RehearsePod(ctx, common); err == nil || !injector.Decided(err) {
			break
		}
		refused = append(refused, err)
	}
	if len(refused) == len(spaces) {
		return nil, granting(refused[0])
	}
	common.Node = "fleet"
	w.pods, err = writer.StartWave(ctx, common)
	return w, err
}

// If a permission is missing, granting adds to a refusal which permission to grant.
func granting(err error) error {
	pe, is := errors.AsType[*injector.PlacementError](err)
	if !is || pe.Reason != facts.ReasonRBAC {
		return err
	}
	return pe.And("'calico-probe manifests --methods pod" + probe.UserFlag(apierror.Refused(pe.Text)) + "' prints the rights to grant")
}

// Close removes the created objects.
func (w *Wave) Close() error { return w.pods.Close() }

// Ask runs a node's checks through the API and a probe, and reports the results. The wave's survey must also have been
// read by ReadShared. Only a few nodes with an unproven fault get follow-up checks and a comparison (deepen).
func (w *Wave) Ask(ctx context.Context, r *Run, n *corev1.Node) error {
	reading, end := trace.Span(ctx, "read the API")
	snap := w.reader.About(reading, w.survey, n)
	end()
	if err := r.askAPI(ctx, snap); err != nil || !r.EntersNode() {
		return err
	}
	if refused := notWorthTrying(snap); refused != nil {
		return r.notPlaced([]injector.Failure{{Method: injector.MethodPod, Err: refused}}, snap)
	}
	o := r.Placement(injector.MethodPod, snap)
	o.Namespace, o.Start = w.space, max(waveStart, r.opts.StartTimeout)
	plan := r.Plan(injector.MethodPod, snap)
	plan.Targets = thinned(plan.Targets, snap.Node.Name)
	var writing error
	err := w.pods.Ask(ctx, o, plan, func(a injector.Answer) error {
		writing = w.take(ctx, r, a, plan)
		return writing
	})
	switch {
	case writing != nil:
		return writing
	case err != nil:
		return r.notPlaced([]injector.Failure{{Method: injector.MethodPod, Err: err}}, snap)
	}
	return w.deepen(ctx, r, n, snap)
}

// maxDeepened is the maximum number of a wave's nodes for which a run takes the further steps of a single-node run.
const maxDeepened = 8

// If a node has a fault that no cause proves yet, deepen takes the further steps of a single-node run: follow-up checks
// by a second probe, then the same checks on healthy nodes. If only a few of the node's peers are lost, those peers
// have the fault.
func (w *Wave) deepen(ctx context.Context, r *Run, n *corev1.Node, snap *cluster.Snapshot) error {
	if r.opts.NoFollowUp || len(r.opts.Checks) > 0 || ctx.Err() != nil || !troubled(r.Seen, r.suite) ||
		fewPeersLost(r.Seen) || diagnose.Explain(r.Seen, r.suite).Settled() || w.deepened.Add(1) > maxDeepened {
		return nil
	}
	defer r.Wait()
	for plan := r.followUp(injector.MethodPod, snap); plan != nil; plan = r.followUp(injector.MethodPod, snap) {
		if err := w.followUp(ctx, r, n, *plan); err != nil {
			return err
		}
	}
	r.among = w.among
	if err := r.Compare(ctx, w.reader, snap); err != nil || r.compared == nil {
		return err
	}
	return r.ReportOthers(snap)
}

// followUp places a second probe on a node, which answers follow-up checks.
func (w *Wave) followUp(ctx context.Context, r *Run, n *corev1.Node, plan probe.Plan) error {
	plan.Targets = thinned(plan.Targets, n.Name)
	var writing error
	err := w.Try(ctx, r, n, plan, func(ev probe.Event) error {
		if ev.Start != nil {
			start := *ev.Start
			start.FollowUp = true
			ev.Start = &start
		}
		writing = r.Add(injector.MethodPod, ev)
		return writing
	})
	if err == nil || writing != nil {
		return writing
	}
	return r.Add(injector.MethodPod, unfollowed(plan.Checks, err))
}

// fewPeersLost reports whether paths to at most half of the tested peers fail. A peer with results in each address
// family counts once.
func fewPeersLost(seen diagnose.Findings) bool {
	lost, all := map[string]bool{}, map[string]bool{}
	for _, f := range seen.All {
		peer := cmp.Or(f.Facts.Str(probe.FactNode), f.Facts.Str(bgp.FactPeer))
		if f.Node == seen.Node && peer != "" && peer != seen.Node {
			all[peer] = true
			if f.Status == probe.Fail {
				lost[peer] = true
			}
		}
	}
	return len(lost) > 0 && 2*len(lost) <= len(all)
}

// Try lets a probe on a node answer a plan, and passes on each event. r is the run that needs the probe. The error
// reports why the answer is missing.
func (w *Wave) Try(ctx context.Context, r *Run, n *corev1.Node, plan probe.Plan, each func(probe.Event) error) error {
	snap := w.survey.Of(n)
	if err := notWorthTrying(snap); err != nil {
		return err
	}
	o := r.Placement(injector.MethodPod, snap)
	o.Namespace, o.Start = w.space, max(waveStart, r.opts.StartTimeout)
	plan.Now = snap.Now.Add(time.Since(snap.Read))
	return w.pods.Ask(ctx, o, plan, func(a injector.Answer) error {
		w.logs <- struct{}{}
		defer func() { <-w.logs }()
		return a.Events(ctx, plan, each)
	})
}

// Keep starts a probe on a node. The probe keeps running until its session is closed. r is the run that needs the
// probe.
func (w *Wave) Keep(ctx context.Context, r *Run, n *corev1.Node) (*injector.Session, error) {
	if why := cluster.NoProbeOn(n); why != "" { // even if its kubelet was silent before, it may answer now
		return nil, &injector.PlacementError{Reason: facts.ReasonSupport, Text: why}
	}
	o := r.Placement(injector.MethodPod, w.survey.Of(n))
	o.Namespace, o.Start = w.space, max(waveStart, r.opts.StartTimeout)
	return w.pods.Keep(ctx, o)
}

// notWorthTrying returns why a node does not get a pod, or nil if it gets one.
func notWorthTrying(snap *cluster.Snapshot) error {
	why, reason := cluster.NoProbeOn(snap.Node), facts.ReasonSupport
	switch {
	case why != "":
	case cluster.KubeletSilent(snap):
		why, reason = "its kubelet is silent, so no pod would start there", facts.ReasonKubelet
	default:
		return nil
	}
	return &injector.PlacementError{Reason: reason, Text: why}
}

// take reports a probe's answer: the summary if all is well, otherwise every result.
func (w *Wave) take(ctx context.Context, r *Run, a injector.Answer, plan probe.Plan) error {
	placed := probe.Found(probe.OK, "probe answered within %s: pod %s", a.Took.Round(10*time.Millisecond), a.Pod)
	placed.Check, placed.Target, placed.Elapsed = probe.CheckPlaced, injector.MethodPod, a.Took
	if a.ImageID != "" {
		placed = placed.With(probe.FactImageID, a.ImageID)
	}
	if err := r.Add(injector.MethodPod, probe.Event{Type: probe.EventResult, Result: &placed}); err != nil {
		return err
	}
	if s, err := probe.ReadSummary(a.Summary, plan); err == nil && s.Well() {
		for _, ev := range s.Events(plan) {
			if err := r.Add(injector.MethodPod, ev); err != nil {
				return err
			}
		}
		return nil
	}
	w.logs <- struct{}{}
	defer func() { <-w.logs }()
	var writing error
	err := a.Events(ctx, plan, func(ev probe.Event) error {
		writing = r.Add(injector.MethodPod, ev)
		return writing
	})
	if err == nil || writing != nil {
		return writing
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = context.Cause(ctx)
	}
	return r.Add(injector.MethodPod, Unanswered(err))
}
