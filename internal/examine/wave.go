package examine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/install"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/trace"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// MostStreams limits the logs that a wave reads at a time, and the probes that it keeps. Each is a connection through
// the API server to a kubelet.
const MostStreams = 48

// waveStart is the time limit for a probe of a wave to start. --start-timeout extends it.
const waveStart = 40 * time.Second

// A Wave examines many nodes: it shares one reading of the API, and starts a pod on each node that answers its plan
// and exits.
type Wave struct {
	reader *cluster.Client
	survey *cluster.Survey
	pods   *injector.Wave
	space  string // the namespace of the pods
	logs   chan struct{}
	traced atomic.Int32 // on how many nodes a second probe searched for dropped packets
}

// StartWave prepares what the probes of many nodes share. r is the first node's run. It creates nothing if it returns
// Agree's error, or an *injector.PlacementError because no namespace accepts the pods.
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
	w := &Wave{reader: reader, survey: s, logs: make(chan struct{}, MostStreams)}
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

// granting adds to a refusal which permission to grant, if one is missing.
func granting(err error) error {
	pe, is := errors.AsType[*injector.PlacementError](err)
	if !is || pe.Reason != facts.ReasonRBAC {
		return err
	}
	return pe.And("'calico-probe manifests --methods pod" + probe.UserFlag(cluster.Refused(pe.Text)) + "' prints what to grant")
}

// Close removes what was created.
func (w *Wave) Close() error { return w.pods.Close() }

// Ask runs a node's checks through the API and a probe, and reports the results. The survey of the wave must come
// from ReadShared too. It uses no other node, and its only follow-up checks are those for dropped packets.
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
	return w.trace(ctx, r, n)
}

// maxTraced is on how many nodes of a wave a second probe searches for the filter that drops packets.
const maxTraced = 8

// trace sends a second probe to find the filter that drops packets, as in a run of one node. It does so only if most
// BGP sessions of the node are down: if one of many peers is lost, that peer has the filter.
func (w *Wave) trace(ctx context.Context, r *Run, n *corev1.Node) error {
	down, all := peers(r.Seen.Bad(bgp.BGPSession.ID)), peers(r.Seen.Of(bgp.BGPSession.ID))
	if r.opts.NoFollowUp || ctx.Err() != nil || 2*down <= all || !diagnose.Explain(r.Seen, r.suite).Untraced() ||
		w.traced.Add(1) > maxTraced {
		return nil
	}
	r.picked = append(slices.Clone(r.picked), firewall.PacketDrops)
	plan := r.Plan(injector.MethodPod, w.survey.Of(n))
	plan.Checks = []string{firewall.PacketDrops.ID}
	r.client.Progress("checking %s for dropped packets", n.Name)
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

// peers counts the peers of some sessions. A peer with a session in each address family counts once.
func peers(sessions []diagnose.Finding) int {
	with := map[string]bool{}
	for _, s := range sessions {
		if peer := s.Facts.Str(bgp.FactPeer); peer != "" {
			with[cmp.Or(s.Facts.Str(probe.FactNode), peer)] = true
		}
	}
	return len(with)
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

// Keep starts a probe that stays on a node until its session is closed. r is the run that needs it.
func (w *Wave) Keep(ctx context.Context, r *Run, n *corev1.Node) (*injector.Session, error) {
	if why := cluster.NoProbeOn(n); why != "" { // an earlier silence of its kubelet proves nothing about now
		return nil, &injector.PlacementError{Reason: facts.ReasonSupport, Text: why}
	}
	o := r.Placement(injector.MethodPod, w.survey.Of(n))
	o.Namespace, o.Start = w.space, max(waveStart, r.opts.StartTimeout)
	return w.pods.Keep(ctx, o)
}

// notWorthTrying returns why a node gets no pod, nil if it gets one.
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

// take reports a probe's answer: its summary if all is well, else every result.
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
