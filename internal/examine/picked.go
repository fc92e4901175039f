package examine

import (
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/probe"
)

// EntersNode reports whether the run checks the node itself.
func (r *Run) EntersNode() bool {
	return r.opts.access().EntersNode() &&
		(len(r.NodeChecks()) > 0 || slices.ContainsFunc(r.picked, overlay.EncapProof.Is))
}

// Only removes all checks from the run except those with these IDs and neighbour-reach. Other nodes answer
// neighbour-reach, and nodes are not compared without it.
func (r *Run) Only(ids []string) {
	r.picked = slices.DeleteFunc(r.picked, func(c *probe.Check) bool {
		return !slices.Contains(ids, c.ID) && !c.Is(link.NeighbourReach)
	})
}

// Picked returns the IDs of all checks of the run.
func (r *Run) Picked() []string { return CheckIDs(r.picked) }

// NodeChecks returns the IDs of the checks that one probe on the node answers.
func (r *Run) NodeChecks() []string {
	ids := CheckIDs(ByOneProbe(r.picked))
	if r.opts.access().Here() && slices.ContainsFunc(r.picked, overlay.EncapProof.Is) {
		ids = append(ids, overlay.EncapProof.ID)
	}
	return ids
}

// ByOneProbe returns the checks that one probe on the node can answer. It omits the proof of encapsulation, which needs
// two probes, and the check whether other nodes reach the node, which the node itself cannot see.
func ByOneProbe(all []*probe.Check) []*probe.Check {
	var out []*probe.Check
	for _, c := range all {
		if c.OnNode() && !c.Is(link.NeighbourReach) && !c.Is(overlay.EncapProof) {
			out = append(out, c)
		}
	}
	return out
}

// Capabilities returns the Linux capabilities that the checks need.
func (r *Run) Capabilities() []string { return probe.Capabilities(r.picked) }

// Owes returns the IDs of the checks that the node itself, or the API's data about it, must answer.
func (r *Run) Owes(snap *cluster.Snapshot) []string {
	var ids []string
	for _, check := range r.picked {
		if check.From == probe.FromAPI && snap != nil {
			ids = append(ids, check.ID)
		}
	}
	if !r.EntersNode() {
		return ids
	}
	ids = append(ids, r.NodeChecks()...)
	if r.ProvesEncap(snap) && !slices.Contains(ids, overlay.EncapProof.ID) {
		ids = append(ids, overlay.EncapProof.ID)
	}
	return ids
}

// Plan returns the plan for the probe on the node.
func (r *Run) Plan(method string, snap *cluster.Snapshot) probe.Plan {
	plan := probe.Plan{Run: r.ID, Node: r.Node, Method: method, Checks: r.NodeChecks(),
		Brief: r.opts.Profile == string(probe.Quick), Limit: r.opts.CheckTimeout}
	if snap != nil {
		plan.Targets, plan.Gaps = cluster.Targets(snap)
		plan.Now = snap.Now.Add(time.Since(snap.Read))
	}
	return plan
}
