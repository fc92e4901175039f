package examine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
)

// view is a healthy node's view of the diagnosed node. It runs in addition to the node's own probe, because a node that
// is unreachable from outside can look healthy from inside:
//
//	look --> view --report, before follow-up checks--> Findings --> fromOutside --> one result about the node
type view struct {
	node     *corev1.Node
	compared []*probe.Check
	wait     func() baseline
	ownTried func() // to be called when the node's own probe runs, or could not be placed
	sameRole bool   // both nodes are control plane nodes, or neither is
	reported bool
}

// headStart is the longest time for which the view waits for the node's own probe. On a small machine, two pods that
// start at the same time delay each other.
const headStart = 3 * time.Second

// look starts the view from outside. It returns nil if there is no other node that is ready and allowed.
func (r *Run) look(ctx context.Context, client *cluster.Client, snap *cluster.Snapshot) *view {
	if !r.looksFromOutside() || !r.Compares(snap) || !r.opts.mayUseSecondPod() {
		return nil
	}
	witness := cluster.Witness(snap)
	if witness == nil {
		return nil
	}
	v := &view{node: witness, sameRole: cluster.SameRole(witness, snap.Node)}
	for _, c := range []*probe.Check{link.NeighbourReach, service.ServiceNodePort} {
		if slices.ContainsFunc(r.picked, c.Is) {
			v.compared = append(v.compared, c)
		}
	}
	limit := r.baselineLimit()
	var asking probe.Workers
	var out baseline
	tried := make(chan struct{})
	v.ownTried = sync.OnceFunc(func() { close(tried) })
	asking.Go(func() {
		select {
		case <-tried:
		case <-time.After(headStart):
		case <-ctx.Done():
		}
		ctx, cancel := context.WithTimeoutCause(ctx, limit, lateError(limit))
		defer cancel()
		out = r.askSafely(ctx, client, snap, v.node, v.compared)
	})
	v.wait = sync.OnceValue(func() baseline {
		asking.Wait()
		return out
	})
	return v
}

// without returns the remaining checks for a baseline node. If it is the node of the view, it has already run some.
func (v *view) without(node *corev1.Node, compared []*probe.Check) []*probe.Check {
	if v == nil || v.node.Name != node.Name || v.wait().err != nil {
		return compared
	}
	return slices.DeleteFunc(slices.Clone(compared), func(c *probe.Check) bool {
		return slices.ContainsFunc(v.compared, c.Is)
	})
}

// reportView waits for the view from outside and reports it only once. Follow-up checks depend on it.
func (r *Run) reportView() error {
	if r.view == nil || r.view.reported {
		return nil
	}
	r.view.reported = true
	for _, ev := range r.view.wait().events {
		if err := r.AddOf(r.view.node.Name, probe.MethodBaseline, ev); err != nil {
			return err
		}
	}
	return nil
}

// fromOutside returns the results about the node that follow from the view. from lists the nodes that answered. failed
// lists the reasons why other nodes did not.
func (r *Run) fromOutside(from, failed []string) []probe.Result {
	res := probe.Found(probe.Info, "tested from outside, by probes on %s", strings.Join(from, " and "))
	switch {
	case len(from)+len(failed) == 0:
		res.Status, res.Saw = probe.Skip, "no other node is ready"
		res = res.With(probe.FactReason, evidence.ReasonUnseen)
	case len(from) == 0:
		if slices.Contains(r.opts.Checks, link.NeighbourReach.ID) {
			res.Status = probe.Unknown
		}
		res.Saw = "no probe on another node answered: " + strings.Join(failed, "; ")
		res = res.With(probe.FactReason, evidence.ReasonUnseen)
	}
	res.Check = link.NeighbourReach.ID
	if r.opts.access().FromOutside() { // nothing inside the node was checked, so only a fault is a verdict
		res.Check, res.Target, res.Status = probe.CheckPlaced, probe.MethodBaseline, probe.Unknown
		res.Saw = fmt.Sprintf("no probe was put on the node itself; %s", res.Saw)
		return []probe.Result{res}
	}
	out := []probe.Result{res}
	closed := evidence.Closed(evidence.Unreached(r.Seen))
	for _, kind := range slices.Sorted(maps.Keys(closed)) {
		status := evidence.Grade(r.Seen, kind, closed[kind], r.view != nil && r.view.sameRole)
		one := probe.Found(status, "not reachable: %s", evidence.Places(r.Seen, closed[kind]))
		one.Check, one.Target = link.NeighbourReach.ID, kind
		out = append(out, one)
	}
	return out
}

// looksFromOutside reports whether the run includes a view from outside.
func (r *Run) looksFromOutside() bool {
	return len(r.opts.Checks) == 0 && r.EntersNode() && slices.ContainsFunc(r.picked, link.NeighbourReach.Is)
}

// unseen returns the result of a run that did not use another node, with the reason.
func (r *Run) unseen(snap *cluster.Snapshot) probe.Event {
	why := "no other node is ready"
	switch {
	case r.opts.Baselines == 0:
		why = "--baselines 0"
	case snap == nil:
		why = "the API was not read"
	case !r.opts.mayUseSecondPod():
		why = "--via " + r.opts.Via + " creates no pod on another node"
	}
	res := probe.Found(probe.Skip, "%s", why).With(probe.FactReason, evidence.ReasonUnseen)
	res.Check = link.NeighbourReach.ID
	return probe.Event{Type: probe.EventResult, Result: &res}
}
