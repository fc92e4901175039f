package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/diagnose"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
)

// wayNeighbour looks at the node from healthy ones. Nothing is put on the node itself.
const wayNeighbour = probe.WayNeighbour

// A healthy peer starts a probe in a second and answers in a few; one that does not
// is no help, and somebody waits.
const (
	contrastLimit = 20 * time.Second
	contrastStart = 8 * time.Second
)

// contrasts tells whether peers may be asked at all.
func (o *runOptions) contrasts(snap *cluster.Snapshot) bool {
	return snap != nil && o.peers > 0 && o.via != wayAPI && slices.Contains(o.picked, checks.NeighbourReach)
}

// troubled tells whether there is something to compare: a bad answer about the node, or
// no way onto it.
func troubled(seen diagnose.Findings) bool {
	return slices.ContainsFunc(seen.All, func(r diagnose.Finding) bool {
		return r.Node == seen.Node && (r.Status == probe.Fail || r.Check == probe.CheckPlaced && r.Status == probe.Unknown)
	})
}

// contrasted are the checks of a suite to ask peers: those that are bad on the node, and
// always their BGP sessions and how the node looks from there.
func contrasted(seen diagnose.Findings, suite []*probe.Check) []*probe.Check {
	var out []*probe.Check
	for _, c := range suite {
		switch {
		case c == checks.EncapProof: // takes two probes that know of each other
		case c == checks.BGPSession, c == checks.NeighbourReach, len(seen.Bad(c.ID)) > 0 && c.From != probe.FromClient:
			out = append(out, c)
		}
	}
	return out
}

// preferred are the addresses of the other ends of bad BGP sessions.
func preferred(seen diagnose.Findings) []netip.Addr {
	var out []netip.Addr
	for _, r := range seen.Bad(checks.BGPSession.ID) {
		if a, err := netip.ParseAddr(r.Facts.Str(checks.FactPeer)); err == nil && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// look is what one peer answered.
type look struct {
	node   string
	events []probe.Event
	err    error // no probe could be put there, or it did not answer whole
}

// glance is peers that are being asked.
type glance struct {
	wait func() []look // until all have answered, or their time is over; as often as wanted
}

// heardNothing waits, and tells whether no peer got any answer from the node: by the word of
// two peers, or of one where the API has not heard of the kubelet either.
func (g *glance) heardNothing(kubeletSilent bool) bool {
	witnesses := 0
	for _, l := range g.wait() {
		asked := false
		for _, ev := range l.events {
			r := ev.Result
			if r == nil || r.Check != checks.NeighbourReach.ID {
				continue
			}
			switch {
			case r.Status == probe.OK, r.Status == probe.Fail && probe.SomebodyAnswered(r.Facts.Str(probe.FactReason)):
				return false
			case r.Status == probe.Fail:
				asked = true
			}
		}
		if asked {
			witnesses++
		}
	}
	return witnesses > 1 || witnesses == 1 && kubeletSilent
}

// begin asks the peers now; somebody has to wait for them.
func (o *runOptions) begin(ctx context.Context, client *cluster.Client, snap *cluster.Snapshot) *glance {
	peers := cluster.Neighbours(snap, o.peers, preferred(o.seen))
	asked := contrasted(o.seen, o.picked)
	looks := make([]look, len(peers))
	ctx, cancel := context.WithTimeoutCause(ctx, contrastLimit, lateError(contrastLimit))
	var all sync.WaitGroup
	for i, peer := range peers {
		o.progress("neighbour: putting a probe on %s", peer.Name)
		all.Go(func() { looks[i] = o.lookFrom(ctx, client, snap, peer, asked) })
	}
	return &glance{wait: func() []look {
		defer cancel()
		all.Wait()
		return looks
	}}
}

// tell reports what the peers answered. It counts nothing in the verdict, but that
// nothing else was asked when it was not, or that nobody could answer what the user
// named.
func (o *runOptions) tell(looks []look) error {
	var from, failed []string
	for _, l := range looks {
		if l.err != nil {
			failed = append(failed, l.node+": "+explainError(l.err))
			o.note("neighbour: %s", failed[len(failed)-1])
		} else {
			from = append(from, l.node)
		}
	}
	r := probe.Found(probe.Info, "looked at from outside, by probes on %s", strings.Join(from, " and "))
	switch {
	case len(looks) == 0:
		r.Status, r.Saw = probe.Skip, "no other node is ready to look at it from"
	case len(from) == 0:
		if slices.Contains(o.want, checks.NeighbourReach.ID) {
			r.Status = probe.Unknown
		}
		r.Saw = "could not be looked at from outside: " + strings.Join(failed, "; ")
	}
	r.Check = checks.NeighbourReach.ID
	if o.via == wayNeighbour { // what is inside was not asked: no verdict but a fault
		r.Check, r.Target, r.Status = probe.CheckPlaced, wayNeighbour, probe.Unknown
		r.Saw = "no probe was put on the node itself; " + r.Saw
	}
	if err := o.emit(wayNeighbour, probe.Event{Type: probe.EventResult, Result: &r}); err != nil {
		return err
	}
	for _, l := range looks {
		for _, ev := range l.events {
			if err := o.emitOf(l.node, wayNeighbour, ev); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookFrom asks one peer, and the API about it.
func (o *runOptions) lookFrom(ctx context.Context, client *cluster.Client, snap *cluster.Snapshot, peer *corev1.Node, asked []*probe.Check) look {
	out := look{node: peer.Name}
	var theirs *cluster.Snapshot
	var unread error
	var reading sync.WaitGroup
	reading.Go(func() { theirs, unread = client.Read(ctx, peer.Name) })
	onNode := slices.DeleteFunc(slices.Clone(asked), func(c *probe.Check) bool { return !c.OnNode() })
	session, err := o.onto(ctx, snap, peer, onNode, contrastStart)
	reading.Wait()
	if err == nil {
		defer func() {
			if closeErr := session.Close(); closeErr != nil {
				o.note("%s: cleaning up: %v", peer.Name, closeErr)
			}
		}()
		if err = unread; err == nil {
			out.events = append(out.events, o.apiOf(ctx, theirs, asked)...)
			err = out.answers(ctx, session, o.planFor(theirs, snap, peer, onNode))
		}
	}
	if err = tardy(ctx, err); err != nil {
		ev := unplaced(wayNeighbour, "", err)
		if session != nil {
			ev = unanswered(err)
		}
		out.err, out.events = err, append(out.events, ev)
	}
	return out
}

// lateError is a peer that has not answered in its time.
type lateError time.Duration

func (e lateError) Error() string {
	return fmt.Sprintf("its answer was not complete within %v, the limit for a neighbour", time.Duration(e))
}

// tardy makes an error that only says that the time of a peer was over say so.
func tardy(ctx context.Context, err error) error {
	late, is := errors.AsType[lateError](context.Cause(ctx))
	if is && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, late)) {
		return late
	}
	return err
}

// planFor is what a peer is asked: as if it were the node in question, and about that
// one.
func (o *runOptions) planFor(theirs, snap *cluster.Snapshot, peer *corev1.Node, asked []*probe.Check) probe.Plan {
	plan := probe.Plan{Run: o.id, Node: peer.Name, Way: wayNeighbour, Checks: checkIDs(asked), Limit: o.checkTimeout}
	plan.Targets, plan.Gaps = cluster.Targets(theirs)
	plan.Targets = append(plan.Targets, cluster.Outside(snap)...)
	plan.Now = theirs.Now.Add(time.Since(theirs.Read))
	return plan
}

// apiOf answers those of the checks about a peer that the API answers.
func (o *runOptions) apiOf(ctx context.Context, theirs *cluster.Snapshot, asked []*probe.Check) []probe.Event {
	var out []probe.Event
	runner := probe.Runner{Suite: cluster.Checks(theirs), Host: &probe.Host{Node: theirs.Node.Name}, Version: probe.Release}
	for _, c := range asked {
		if c.From != probe.FromAPI {
			continue
		}
		runner.Run(ctx, probe.Plan{Checks: []string{c.ID}}, func(ev probe.Event) {
			if ev.Result != nil {
				out = append(out, ev)
			}
		})
	}
	return out
}

// answers collects what the probe on a peer says.
func (l *look) answers(ctx context.Context, session *injector.Session, plan probe.Plan) error {
	err := answer(ctx, session, probe.Request{Type: probe.RequestPlan, Plan: &plan}, func(ev probe.Event) bool {
		l.events = append(l.events, ev)
		return true
	})
	if err != nil {
		return fmt.Errorf("the probe on %s: %w", l.node, err)
	}
	return nil
}
