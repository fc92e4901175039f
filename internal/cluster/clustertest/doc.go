// Package clustertest has helpers for tests of API checks: a basic Snapshot, and a fake API server. Ask is its entry
// point: it runs a check over a Snapshot.
package clustertest

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// Ask runs the check with this ID and returns its results.
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
