package examine

import (
	"context"
	"slices"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// aboutCalico lists the API checks about calico-node's containers.
var aboutCalico = []string{facts.CheckCalicoPod, facts.CheckCalicoBudget}

// lookAgain queries the API again in two cases, and reports the changes. In the first case, the kubelet stopped
// renewing its lease. In the second case, the node reports that Felix is gone although the API showed calico-node as
// healthy: the container has just exited, and the kubelet reports the reason a second or two later.
func (r *Run) lookAgain(ctx context.Context, client *cluster.Client, snap *cluster.Snapshot) error {
	if r.unrenewed != nil {
		if err := r.answerAgain(ctx, r.unrenewed, []string{facts.CheckNodeLease}); err != nil {
			return err
		}
	}
	if snap == nil || ctx.Err() != nil || r.opts.NoFollowUp || len(r.opts.Checks) > 0 || !goneSince(r.Seen) {
		return nil
	}
	r.client.Progress("Felix's port is closed, but the API shows calico-node as healthy: querying the API again")
	now, err := client.Again(ctx, snap)
	if err != nil {
		r.client.Note("querying the API again for calico-node: %v", err)
	}
	if now == nil {
		return nil
	}
	return r.answerAgain(ctx, now, aboutCalico)
}

// answerAgain runs checks over a later snapshot, and reports the results that became bad since the first snapshot.
func (r *Run) answerAgain(ctx context.Context, now *cluster.Snapshot, ids []string) error {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return !slices.Contains(CheckIDs(r.picked), id)
	})
	before := slices.Clone(r.Seen.All)
	return r.answerAPI(ctx, now, ids, func(ev probe.Event) error {
		known := func(f diagnose.Finding) bool {
			return f.Check == ev.Result.Check && f.Target == ev.Result.Target && f.Saw == ev.Result.Saw
		}
		if ev.Type != probe.EventResult || ev.Result.Status == probe.OK || slices.ContainsFunc(before, known) {
			return nil
		}
		later := *ev.Result
		later.Saw = "checked again: " + later.Saw
		ev.Result = &later
		return r.Add(injector.MethodAPI, ev)
	})
}

// goneSince reports whether Felix's port is closed on the node although the API shows calico-node as healthy.
func goneSince(seen diagnose.Findings) bool {
	gone := slices.ContainsFunc(seen.Failed(felix.FelixLive.ID), func(f diagnose.Finding) bool {
		return f.Facts.Str(probe.FactReason) == "refused"
	})
	return gone && seen.Fine(facts.CheckCalicoPod)
}
