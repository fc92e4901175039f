package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
)

// proves tells whether a second probe is wanted.
func (o *runOptions) proves(snap *cluster.Snapshot) bool {
	return snap != nil && slices.Contains(o.picked, checks.EncapProof)
}

// prove puts a probe on another node too and lets the two prove to each other which
// packets pass between them. The error is one of writing the report.
func (o *runOptions) prove(ctx context.Context, here *injector.Session, snap *cluster.Snapshot) error {
	began, counts := time.Now(), probe.Counts{}
	start := probe.Start{V: probe.Version, Version: probe.Release, Run: o.id, Node: o.node, Way: wayPair, Time: began.UTC(), Checks: []string{checks.EncapProof.ID}}
	if err := o.emit(wayPair, probe.Event{Type: probe.EventStart, Start: &start}); err != nil {
		return err
	}
	say := func(r probe.Result) error {
		r.Check = checks.EncapProof.ID
		counts[r.Status]++
		return o.emit(wayPair, probe.Event{Type: probe.EventResult, Result: &r})
	}
	if err := o.proof(ctx, here, snap, say); err != nil {
		return err
	}
	return o.emit(wayPair, probe.Event{Type: probe.EventEnd, End: &probe.End{Results: counts.Total(), Counts: counts, Elapsed: time.Since(began)}})
}

// proof is what prove is about; say shows one result.
func (o *runOptions) proof(ctx context.Context, here *injector.Session, snap *cluster.Snapshot, say func(probe.Result) error) error {
	peer := cluster.Opposite(snap)
	if peer == nil {
		return say(probe.Found(probe.Skip, "the cluster has no other node to prove it with"))
	}
	if len(cluster.Ways(snap, snap.Node, peer, "", "")) == 0 {
		return say(probe.Found(probe.Skip, "Calico has registered no addresses of one family for this node and for %s", peer.Name))
	}
	o.progress("putting a second probe on %s", peer.Name)
	there, err := o.onto(ctx, snap, peer, []*probe.Check{checks.EncapProof}, startUsual)
	if err != nil {
		return say(probe.Found(probe.Unknown, "no probe could be put on %s, the other end: %s", peer.Name, explainError(err)))
	}
	defer func() {
		if closeErr := there.Close(); closeErr != nil {
			o.note("%s: cleaning up: %v", peer.Name, closeErr)
		}
	}()
	near, far := end{snap.Node, here}, end{peer, there}
	for _, d := range [][2]end{{near, far}, {far, near}} {
		got, err := o.direction(ctx, snap, d[0], d[1])
		if err != nil {
			got = append(got, probe.Found(probe.Unknown, "from %s to %s: %s", d[0].node.Name, d[1].node.Name, explainError(err)))
		}
		for _, r := range got {
			if err := say(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// onto puts a probe on another node, by a pod of its own.
func (o *runOptions) onto(ctx context.Context, snap *cluster.Snapshot, peer *corev1.Node, asked []*probe.Check, start time.Duration) (*injector.Session, error) {
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	client, err := injector.NewClient(config)
	if err != nil {
		return nil, err
	}
	opts := o.placement(wayPod, nil, attempt{start: startUsual})
	// A name of its own: the pod of an earlier probe there may still be ending.
	opts.Run = newRunID()
	opts.Namespace, opts.Calico, opts.Start = o.namespace(snap), snap.Calico, start
	opts.Node, opts.Checks, opts.Needed = peer.Name, checkIDs(asked), probe.Capabilities(asked)
	return o.podOrElsewhere(injector.Pod(client))(ctx, opts)
}

// end is one of the two nodes and the probe on it.
type end struct {
	node    *corev1.Node
	session *injector.Session
}

// direction lets one end listen and, once it does, the other send. What was seen
// comes back also beside an error.
func (o *runOptions) direction(ctx context.Context, snap *cluster.Snapshot, from, to end) ([]probe.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	plan := func(at, other end, role string) probe.Request {
		return probe.Request{Type: probe.RequestPlan, Plan: &probe.Plan{
			Run: o.id, Node: at.node.Name, Checks: []string{checks.EncapProof.ID}, Limit: o.checkTimeout,
			Targets: append(cluster.Self(at.node), cluster.Ways(snap, at.node, other.node, role, hex.EncodeToString(b))...),
		}}
	}
	var heard, sent []probe.Result
	listening, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ready := false
		ended <- answer(ctx, to.session, plan(to, from, probe.RoleListen), func(ev probe.Event) bool {
			switch r := ev.Result; {
			case r == nil:
			case r.Facts[checks.FactReady] == true && !ready:
				ready = true
				close(listening)
			default:
				heard = append(heard, *r)
			}
			return true
		})
	}()
	select {
	case <-listening:
	case err := <-ended: // it never listened, and says why
		return heard, err
	}
	err := answer(ctx, from.session, plan(from, to, probe.RoleSend), func(ev probe.Event) bool {
		if ev.Result != nil {
			sent = append(sent, *ev.Result)
		}
		return true
	})
	if err != nil {
		cancel() // the listener need not wait
		return sent, errors.Join(fmt.Errorf("the sender: %w", err), <-ended)
	}
	select {
	case err = <-ended: // before the sender had: what it has not heard may have been sent later
		sent = slices.DeleteFunc(sent, func(r probe.Result) bool { return r.Status == probe.OK && r.Facts.Str(checks.FactPath) != "BGP" })
	default:
		err = <-ended
	}
	if err != nil {
		err = fmt.Errorf("the listener: %w", err)
	}
	return joined(sent, heard), err
}

// joined puts the two halves of an answer together: that a token left says nothing
// without the listener, and what did not arrive was lost only if it was sent.
func joined(sent, heard []probe.Result) []probe.Result {
	key := func(r probe.Result) string {
		f, _ := r.Facts.Num(checks.FactFamily)
		return fmt.Sprintf("%s %v", r.Facts.Str(checks.FactPath), f)
	}
	left := map[string]bool{}
	var out []probe.Result
	for _, r := range sent {
		if r.Status == probe.OK && r.Facts.Str(checks.FactPath) != "BGP" {
			left[key(r)] = true
		} else {
			out = append(out, r)
		}
	}
	for _, r := range heard {
		switch {
		case r.Status == probe.OK || r.Status == probe.Unknown || left[key(r)]:
			out = append(out, r)
		case !slices.ContainsFunc(out, func(o probe.Result) bool { return key(o) == key(r) }): // else the sender says why
			r.Status, r.Saw = probe.Unknown, "nothing came in, and whether it was sent in time is not known"
			out = append(out, r)
		}
	}
	return out
}
