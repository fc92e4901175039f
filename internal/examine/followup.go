package examine

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
)

// followUp adds the checks that the causes still need if a failure is not fully explained. It returns the plan for the
// probe on the node, or nil if there are no such checks. It omits checks that need more privileges than the probe has,
// and checks that the user excluded.
func (r *Run) followUp(method string, snap *cluster.Snapshot) *probe.Plan {
	if r.opts.NoFollowUp || len(r.opts.Checks) > 0 {
		return nil
	}
	found := diagnose.Explain(r.Seen, r.suite)
	open := found.Open()
	if !found.Settled() && r.Compares(snap) && troubled(r.Seen, r.suite) { // a baseline node will run the same checks
		open = append(open, diagnose.Cover{Check: nodestate.NodeState.ID})
	}
	if !found.Settled() && silent(r.Seen) || found.Untraced() {
		open = append(open, diagnose.Cover{Check: firewall.PacketDrops.ID})
	}
	more := r.mayAsk(open, snap)
	if len(more) == 0 {
		return nil
	}
	if slices.ContainsFunc(more, overlay.EncapProof.Is) {
		r.about = aboutProof(open, snap)
	}
	r.picked = append(r.picked, more...)
	r.followed = append(r.followed, more...)
	r.client.Progress("some results are unexplained: also running %s", strings.Join(CheckIDs(more), ", "))
	plan := r.Plan(method, snap)
	plan.Checks = CheckIDs(slices.DeleteFunc(more, func(c *probe.Check) bool {
		return !slices.Contains(plan.Checks, c.ID)
	}))
	if len(plan.Checks) == 0 {
		return nil
	}
	return &plan
}

// silent reports whether the node's packets did not get a reply. If so, it is useful to check where they end.
func silent(seen diagnose.Findings) bool {
	paths := []*probe.Check{link.NodePing, pod.PodPing, pod.PodTCP}
	return slices.ContainsFunc(seen.All, func(r diagnose.Finding) bool {
		is := func(c *probe.Check) bool { return c.ID == r.Check }
		return r.Node == seen.Node && r.Status == probe.Fail && slices.ContainsFunc(paths, is) &&
			!probe.IsReply(r.Facts.Str(probe.FactReason))
	})
}

// mayAsk returns the open checks that the run is still allowed to run.
func (r *Run) mayAsk(open []diagnose.Cover, snap *cluster.Snapshot) []*probe.Check {
	allowed, err := probe.Select(Suite(), nil, r.opts.Skip)
	if err != nil {
		return nil // with an invalid selection, the run could not have begun
	}
	have := r.Capabilities()
	return slices.DeleteFunc(allowed, func(c *probe.Check) bool {
		wanted := slices.ContainsFunc(open, func(w diagnose.Cover) bool { return w.Check == c.ID })
		return !wanted || slices.ContainsFunc(r.picked, c.Is) || !c.OnNode() || c.Is(link.NeighbourReach) ||
			r.opts.access().EntersNode() && !r.opts.canAsk(c) ||
			c.Is(overlay.EncapProof) && (snap == nil || !r.opts.mayUseSecondPod()) ||
			slices.ContainsFunc(probe.Capabilities([]*probe.Check{c}), func(need string) bool {
				return !slices.Contains(have, need)
			})
	})
}

// aboutProof returns the other node for the proof of encapsulation; "" = any.
func aboutProof(open []diagnose.Cover, snap *cluster.Snapshot) string {
	for _, want := range open {
		if want.Check != overlay.EncapProof.ID || want.About == "" || snap == nil {
			continue
		}
		for i := range snap.Nodes {
			if n := &snap.Nodes[i]; n.Name == want.About && cluster.NoProbeOn(n) == "" {
				return n.Name
			}
		}
	}
	return ""
}

// mayUseSecondPod reports whether the run may place a pod on another node although the user did not request it. This
// requires an access method with pods, permission to use other nodes, and a profile other than quick.
func (o Options) mayUseSecondPod() bool {
	return o.Baselines > 0 && o.Profile != string(probe.Quick) &&
		slices.ContainsFunc(fallbacks(o.Via), func(method string) bool { return injector.AccessOf(method).Pods })
}
