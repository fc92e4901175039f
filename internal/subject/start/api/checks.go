// Package api runs the checks of calico-node, its installation and its controllers that need only the API. Each is a
// function from a cluster.Snapshot to probe.Results. Only the client links it. It sends no requests: internal/cluster
// reads the Snapshot. Extend that package for a new check.
package api

import (
	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Checks returns the checks, bound to a Snapshot. With a nil Snapshot, checks can be listed and explained, but not run.
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
		{
			ID: facts.CheckPodsCreated, Run: apicheck.Run(s, podsCreated),
		},
	})
}
