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

// aboutCalico are the checks that the API answers of calico-node's containers.
var aboutCalico = []string{facts.CheckCalicoPod, facts.CheckCalicoBudget}

// lookAgain asks the API once more how calico-node does, where the node says that Felix is gone and the API had
// said that all is well: it ended in between, and the kubelet tells why a second or two later. What is bad then is
// reported too.
func (r *Run) lookAgain(ctx context.Context, client *cluster.Client, snap *cluster.Snapshot) error {
	if snap == nil || ctx.Err() != nil || r.opts.NoFollowUp || len(r.opts.Checks) > 0 || !goneSince(r.Seen) {
		return nil
	}
	asked := slices.DeleteFunc(slices.Clone(aboutCalico), func(id string) bool {
		return !slices.Contains(CheckIDs(r.picked), id)
	})
	r.client.Progress("nothing listens at Felix's port, and the API says that calico-node does well: asking the API again")
	now, err := client.Again(ctx, snap)
	if err != nil {
		r.client.Note("asking the API again for calico-node: %v", err)
	}
	if now == nil {
		return nil
	}
	before := slices.Clone(r.Seen.All)
	return r.answerAPI(ctx, now, asked, func(ev probe.Event) error {
		known := func(f diagnose.Finding) bool {
			return f.Check == ev.Result.Check && f.Target == ev.Result.Target && f.Saw == ev.Result.Saw
		}
		if ev.Type != probe.EventResult || ev.Result.Status == probe.OK || slices.ContainsFunc(before, known) {
			return nil
		}
		later := *ev.Result
		later.Saw = "asked again: " + later.Saw
		ev.Result = &later
		return r.Add(injector.MethodAPI, ev)
	})
}

// goneSince tells whether the node says that nothing listens at Felix's port, and the API that calico-node does well.
func goneSince(seen diagnose.Findings) bool {
	gone := slices.ContainsFunc(seen.Failed(felix.FelixLive.ID), func(f diagnose.Finding) bool {
		return f.Facts.Str(probe.FactReason) == "refused"
	})
	return gone && seen.Fine(facts.CheckCalicoPod)
}
