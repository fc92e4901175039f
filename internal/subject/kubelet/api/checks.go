// Package api answers the checks of the node and its kubelet that the API alone can answer, out of a
// cluster.Snapshot. The client alone links it. It reads nothing: what is not in the Snapshot, internal/cluster has
// to read.
package api

import (
	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Checks lists them, bound to a Snapshot. With a nil Snapshot they can be listed and explained, not run.
func Checks(s *cluster.Snapshot) []*probe.Check {
	return apicheck.Of([]*probe.Check{
		{
			ID: facts.CheckNodeReady, Run: apicheck.Run(s, NodeReady),
		},
		{
			ID: facts.CheckNodeLease, Run: apicheck.Run(s, NodeLease),
		},
		{
			ID: facts.CheckNodeTaints, Run: apicheck.Run(s, nodeTaints),
		},
	})
}
