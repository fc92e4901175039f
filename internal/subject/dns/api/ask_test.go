package api

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
)

// ask runs one of these checks on a Snapshot and returns its results.
func ask(t *testing.T, s *cluster.Snapshot, id string) []probe.Result {
	t.Helper()
	return clustertest.Ask(t, Checks(s), id)
}
