// Package api runs the checks of what calico-node needs of the API and of its datastore that need the API alone. Each
// is a function from a cluster.Snapshot to probe.Results. The client alone links it. It sends no request itself:
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
			ID: facts.CheckDatastoreReady, Run: apicheck.Run(s, datastoreReady),
		},
		{
			ID: facts.CheckAccounts, Run: apicheck.Run(s, calicoAccounts),
		},
		{
			ID:  facts.CheckCalicoRights,
			Run: apicheck.Run(s, calicoRights),
		},
		{
			ID:  facts.CheckWebhooks,
			Run: apicheck.Run(s, deadWebhooks),
		},
		{
			ID:  facts.CheckTyphaService,
			Run: apicheck.Run(s, typhaService),
		},
	})
}
