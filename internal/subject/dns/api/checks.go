// Package api answers the checks of the cluster's DNS that the API alone can answer, out of a cluster.Snapshot. The
// client alone links it. It reads nothing: what is not in the Snapshot, internal/cluster has to read.
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
			ID:  facts.CheckDNSPolicies,
			Run: apicheck.Run(s, dnsPolicies),
		},
		{
			ID: facts.CheckDNSService, Run: apicheck.Run(s, dnsService),
		},
	})
}
