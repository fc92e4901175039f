package examine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/probe"
)

// ProvesEncap reports whether the run includes the proof of encapsulation. That proof needs a second probe.
func (r *Run) ProvesEncap(snap *cluster.Snapshot) bool {
	return snap != nil && slices.ContainsFunc(r.picked, overlay.EncapProof.Is)
}

// ProveEncap places a second probe on another node. The two probes send packets to each other, which shows which kinds
// of packets pass. The error is from writing the report.
func (r *Run) ProveEncap(ctx context.Context, here *injector.Session, snap *cluster.Snapshot) error {
	began, counts := time.Now(), probe.Counts{}
	start := probe.Start{
		V: probe.Version, Version: probe.Release, Run: r.ID, Node: r.Node, Method: methodPair, Time: began.UTC(),
		Checks: []string{overlay.EncapProof.ID}, FollowUp: slices.ContainsFunc(r.followed, overlay.EncapProof.Is),
	}
	if err := r.Add(methodPair, probe.Event{Type: probe.EventStart, Start: &start}); err != nil {
		return err
	}
	say := func(res probe.Result) error {
		res.Check = overlay.EncapProof.ID
		counts[res.Status]++
		return r.Add(methodPair, probe.Event{Type: probe.EventResult, Result: &res})
	}
	if err := r.proof(ctx, here, snap, say); err != nil {
		return err
	}
	return r.Add(methodPair, probe.Event{
		Type: probe.EventEnd, End: &probe.End{Results: counts.Total(), Counts: counts, Elapsed: time.Since(began)},
	})
}

// methodPair is the access method that two probes report when they test each other.
const methodPair = "pair"

// proof runs the steps of ProveEncap; say reports one result.
func (r *Run) proof(
	ctx context.Context, here *injector.Session, snap *cluster.Snapshot, say func(probe.Result) error,
) error {
	peer := cluster.Opposite(snap, r.about)
	if peer == nil {
		return say(probe.Found(probe.Skip, "the cluster has no other node for this test"))
	}
	if len(cluster.EncapTargets(snap, snap.Node, peer, "", "")) == 0 {
		return say(probe.Found(probe.Skip, "Calico has registered no addresses of one family for this node and for %s", peer.Name))
	}
	r.client.Progress("putting a second probe on %s", peer.Name)
	there, err := r.placeOn(ctx, snap, peer, []*probe.Check{overlay.EncapProof}, injector.StartUsual)
	if err != nil {
		return say(probe.Found(probe.Unknown, "no probe could be put on %s, the other end: %s", peer.Name, apierror.Explain(err)))
	}
	defer r.close(ctx, peer.Name, there)
	near, far := end{snap.Node, here}, end{peer, there}
	for _, d := range [][2]end{{near, far}, {far, near}} {
		got, err := r.direction(ctx, snap, d[0], d[1])
		if err != nil {
			r := probe.Found(probe.Unknown, "from %s to %s: %s", d[0].node.Name, d[1].node.Name, apierror.Explain(err))
			got = append(got, r)
		}
		for _, res := range got {
			if err := say(res); err != nil {
				return err
			}
		}
	}
	return nil
}

// placeOn places a probe on another node, in its own pod.
func (r *Run) placeOn(
	ctx context.Context, snap *cluster.Snapshot, node *corev1.Node, compared []*probe.Check, start time.Duration,
) (*injector.Session, error) {
	client, err := r.client.Writer()
	if err != nil {
		return nil, err
	}
	opts := r.opts.placement(r.client, injector.MethodPod, nil)
	// Use a separate run ID, because the pod of an earlier probe on that node may still be terminating.
	opts.Node, opts.Run, opts.Keep = node.Name, injector.NewRunID(), r.opts.InSession
	opts.Namespace, opts.Calico, opts.Start = r.client.PodNamespace(snap), snap.Calico.Value, start
	opts.Checks, opts.Needed = CheckIDs(compared), probe.Capabilities(compared)
	return r.client.InEitherNamespace(injector.Opener(injector.MethodPod, client))(ctx, opts)
}

// end is one of the two nodes and the probe on it.
type end struct {
	node    *corev1.Node
	session *injector.Session
}

// direction starts one end as listener and then the other as sender. It may return results together with an error.
func (r *Run) direction(ctx context.Context, snap *cluster.Snapshot, from, to end) ([]probe.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	token := injector.NewRunID()
	plan := func(at, other end, role string) probe.Request {
		return probe.Request{Type: probe.RequestPlan, Plan: &probe.Plan{
			Run: r.ID, Node: at.node.Name, Checks: []string{overlay.EncapProof.ID}, Limit: r.opts.CheckTimeout,
			Targets: append(cluster.Self(at.node), cluster.EncapTargets(snap, at.node, other.node, role, token)...),
		}}
	}
	var heard, sent []probe.Result
	listening := make(chan struct{})
	ended := probe.Async(func() error {
		ready := false
		return to.session.Ask(ctx, plan(to, from, probe.RoleListen), func(ev probe.Event) bool {
			switch res := ev.Result; {
			case res == nil:
			case res.Facts[overlay.FactReady] == true && !ready:
				ready = true
				close(listening)
			default:
				heard = append(heard, *res)
			}
			return true
		})
	})
	select {
	case <-listening:
	case err := <-ended: // the listener never started: the error has the reason
		return heard, err
	}
	err := from.session.Ask(ctx, plan(from, to, probe.RoleSend), func(ev probe.Event) bool {
		if ev.Result != nil {
			sent = append(sent, *ev.Result)
		}
		return true
	})
	if err != nil {
		cancel() // the listener can stop waiting
		return sent, errors.Join(fmt.Errorf("the sender: %w", err), <-ended)
	}
	select {
	case err = <-ended: // the listener stopped before the sender did: missing packets may have been sent later
		sent = slices.DeleteFunc(sent, func(r probe.Result) bool {
			return r.Status == probe.OK && r.Facts.Str(overlay.FactPath) != "BGP"
		})
	default:
		err = <-ended
	}
	if err != nil {
		err = fmt.Errorf("the listener: %w", err)
	}
	return joined(sent, heard), err
}

// joined merges the sender's and the listener's results. Without the listener, a sent token proves nothing. A missing
// token counts as lost only if it was sent.
func joined(sent, heard []probe.Result) []probe.Result {
	key := func(r probe.Result) string {
		f, _ := r.Facts.Num(probe.FactFamily)
		return fmt.Sprintf("%s %v", r.Facts.Str(overlay.FactPath), f)
	}
	left := map[string]bool{}
	var out []probe.Result
	for _, r := range sent {
		if r.Status == probe.OK && r.Facts.Str(overlay.FactPath) != "BGP" {
			left[key(r)] = true
		} else {
			out = append(out, r)
		}
	}
	for _, r := range heard {
		switch {
		case r.Status == probe.OK || r.Status == probe.Unknown || left[key(r)]:
			out = append(out, r)
		case !slices.ContainsFunc(out, func(o probe.Result) bool { return key(o) == key(r) }): // the sender has no result
			r.Status, r.Saw = probe.Unknown, "nothing arrived; unknown whether it was sent in time"
			out = append(out, r)
		}
	}
	return out
}
