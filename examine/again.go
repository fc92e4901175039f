package examine

import (
	"context"
	"slices"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/diagnose"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// aboutCalico are the checks that the API answers of calico-node's containers.
var aboutCalico = []string{facts.CheckCalicoPod, facts.CheckCalicoBudget}

// lookAgain asks the API once more how calico-node does, where the node says that Felix is gone and the API had
// said that all is well: it ended in between, and the kubelet tells why a second or two later. What is bad then is
// reported too.
func (r *Run) lookAgain(ctx context.Context, client *cluster.Client, snap *cluster.Snapshot) error {
	if snap == nil || r.opts.NoFollowUp || len(r.opts.Checks) > 0 || !goneSince(r.Seen) {
		return nil
	}
	r.client.Progress("Felix is gone, of which the API did not know: asking it again")
	now, err := client.Again(ctx, snap)
	if err != nil {
		r.client.Note("asking the API again for calico-node: %v", err)
	}
	if now == nil {
		return nil
	}
	return r.answerAPI(ctx, now, aboutCalico, func(ev probe.Event) bool {
		return ev.Type == probe.EventResult && ev.Result.Status != probe.OK
	})
}

// goneSince tells whether the node says that nothing listens at Felix's port, and the API that calico-node does well.
func goneSince(seen diagnose.Findings) bool {
	gone := slices.ContainsFunc(seen.Failed(checks.FelixLive.ID), func(f diagnose.Finding) bool {
		return f.Facts.Str(probe.FactReason) == "refused"
	})
	return gone && len(seen.Of(facts.CheckCalicoPod)) > 0 && len(seen.Bad(facts.CheckCalicoPod)) == 0
}
