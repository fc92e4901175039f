package examine

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/diagnose"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
)

// FollowUp adds to the run what the causes found so far want to know and was not asked, where
// something is bad and no cause is proven: a person would look there now. It returns the plan for
// the probe that is on the node, nil where it has nothing to add for it. Nothing is asked that
// takes more privileges than the probe has, nor what the user left out.
func (r *Run) FollowUp(method string, snap *cluster.Snapshot) *probe.Plan {
	if r.opts.NoFollowUp || len(r.opts.Checks) > 0 {
		return nil
	}
	open, about := diagnose.Explain(r.Seen, diagnose.Rules()).Open()
	more := r.mayAsk(open, snap)
	if len(more) == 0 {
		return nil
	}
	r.about = about
	r.picked = append(r.picked, more...)
	r.client.Progress("no cause is proven yet: asking %s too", strings.Join(CheckIDs(more), ", "))
	plan := r.Plan(method, snap)
	plan.Checks = CheckIDs(slices.DeleteFunc(more, func(c *probe.Check) bool {
		return !slices.Contains(plan.Checks, c.ID)
	}))
	if len(plan.Checks) == 0 {
		return nil
	}
	return &plan
}

// mayAsk are those of some checks that the run may still ask.
func (r *Run) mayAsk(ids []string, snap *cluster.Snapshot) []*probe.Check {
	allowed, err := probe.Select(Suite(), nil, r.opts.Skip)
	if err != nil {
		return nil // the run itself could not have begun
	}
	have := r.Capabilities()
	return slices.DeleteFunc(allowed, func(c *probe.Check) bool {
		second := c == checks.EncapProof // which puts a probe on another node, as the comparison does
		return !slices.Contains(ids, c.ID) || slices.Contains(r.picked, c) || !c.OnNode() || c == checks.NeighbourReach ||
			second && (snap == nil || r.opts.Baselines == 0 || r.opts.Via == injector.MethodLocal) ||
			slices.ContainsFunc(probe.Capabilities([]*probe.Check{c}), func(need string) bool {
				return !slices.Contains(have, need)
			})
	})
}
