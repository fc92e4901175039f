// Package apicheck is what the checks of the API share, whatever their subject: how one is bound to a cluster.Snapshot,
// and what it answers where a part of the Snapshot could not be read. It judges nothing.
package apicheck

import (
	"context"
	"time"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
)

// Run answers a check out of a Snapshot.
func Run(s *cluster.Snapshot, look func(*cluster.Snapshot, func(probe.Result))) func(context.Context, *probe.Pass) {
	return func(_ context.Context, p *probe.Pass) { look(s, p.Report) }
}

// Of completes checks with what all checks of the API have: their origin and tag, and a limit that is theirs although
// they read nothing, since every check has one.
func Of(checks []*probe.Check) []*probe.Check {
	for _, c := range checks {
		c.From, c.Tags, c.Limit = probe.FromAPI, []string{"api"}, time.Second
	}
	return checks
}
