package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
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
	there, err := o.onto(ctx, snap, peer)
	if err != nil {
		return say(probe.Found(probe.Unknown, "no probe could be put on %s, the other end: %s", peer.Name, explainError(err)))
	}
	defer func() {
		if closeErr := there.Close(); closeErr != nil {
			o.note("%s: cleaning up: %v; remove what is left with 'calico-probe clean --all'", peer.Name, closeErr)
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

// onto puts the second probe on its node, by a pod of its own.
func (o *runOptions) onto(ctx context.Context, snap *cluster.Snapshot, peer *corev1.Node) (*injector.Session, error) {
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	client, err := injector.NewClient(config)
	if err != nil {
		return nil, err
	}
	opts := o.placement(wayPod, snap, true)
	opts.Node, opts.Checks, opts.Needed = peer.Name, []string{checks.EncapProof.ID}, probe.Capabilities([]*probe.Check{checks.EncapProof})
	return injector.Pod(client)(ctx, opts)
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
	plan := func(at, other end, role string) probe.Plan {
		return probe.Plan{
			Run: o.id, Node: at.node.Name, Checks: []string{checks.EncapProof.ID}, Limit: o.checkTimeout,
			Targets: append(cluster.Self(at.node), cluster.Ways(snap, at.node, other.node, role, hex.EncodeToString(b))...),
		}
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
		// That a token left is half of an answer; the listener has the other half.
		if r := ev.Result; r != nil && (r.Status != probe.OK || r.Facts.Str(checks.FactPath) == "BGP") {
			sent = append(sent, *r)
		}
		return true
	})
	if err != nil {
		cancel() // the listener need not wait
		err = fmt.Errorf("the sender: %w", err)
	}
	if late := <-ended; late != nil && err == nil {
		err = fmt.Errorf("the listener: %w", late)
	}
	return append(sent, heard...), err
}
