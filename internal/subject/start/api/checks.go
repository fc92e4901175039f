// Package api runs the checks of calico-node, its installation and its controllers that need the API alone. Each is a
// function from a cluster.Snapshot to probe.Results. The client alone links it. It sends no request itself:
// internal/cluster reads the Snapshot, so add there what a new check needs.
package api

import (
	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Checks returns the checks, bound to a Snapshot. With a nil Snapshot they can be listed and explained, not run.
func Checks(s *cluster.Snapshot) []*probe.Check {
	return apicheck.Of([]*probe.Check{
		{
			ID: facts.CheckCalicoKind, Run: apicheck.Run(s, calicoKind),
		},
		{
			ID: facts.CheckCalicoPod, Run: apicheck.Run(s, CalicoPod),
		},
		{
			ID:  facts.CheckCalicoBudget,
			Run: apicheck.Run(s, calicoBudget),
		},
		{
			ID: facts.CheckControllers, Run: apicheck.Run(s, calicoControllers),
		},
	})
}
