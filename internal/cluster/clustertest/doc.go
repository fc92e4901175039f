// Package clustertest is what the tests of the API's checks share: a Snapshot to start from, a server that answers
// for the API, and how a check is asked. Its one entry point is Ask.
package clustertest

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// Ask runs one of some checks and returns its results.
func Ask(t *testing.T, checks []*probe.Check, id string) []probe.Result {
	t.Helper()
	var got []probe.Result
	r := probe.Runner{Suite: checks, Host: &probe.Host{}}
	r.Run(t.Context(), probe.Plan{Checks: []string{id}}, func(ev probe.Event) {
		if ev.Type == probe.EventResult {
			got = append(got, *ev.Result)
		}
	})
	return got
}
