// Package apicheck is shared by the API checks of all subjects. It binds a check to a cluster.Snapshot, and returns the
// results for parts of the Snapshot that could not be read.
//
//	cluster.Snapshot -> Run(s, look) -> look reports probe.Results, or Unread(err) for a missing part
//
// Of and Run are the entry points. The package does not judge anything.
package apicheck

import (
	"context"
	"time"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
)

// Run turns a function over a Snapshot into a check's run function.
func Run(s *cluster.Snapshot, look func(*cluster.Snapshot, func(probe.Result))) func(context.Context, *probe.Pass) {
	return func(_ context.Context, p *probe.Pass) { look(s, p.Report) }
}

// Of adds the common origin, tag and time limit to API checks. These checks do not read anything, but every check must
// have a limit.
func Of(checks []*probe.Check) []*probe.Check {
	for _, c := range checks {
		c.From, c.Tags, c.Limit = probe.FromAPI, []string{"api"}, time.Second
	}
	return checks
}
