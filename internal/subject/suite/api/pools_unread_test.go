package api

import (
	"errors"
	"testing"

	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestPoolsUnread expects unknown results about tunnels and sessions if the pools could not be read.
func TestPoolsUnread(t *testing.T) {
	s := clustertest.Snapshot(clustertest.Node("a", "10.88.0.11", "10.88.0.11/24"),
		clustertest.Node("b", "10.88.0.12", "10.88.0.12/24"))
	s.Calico.Value, s.Backend.Value, s.Pools.Err = clustertest.Calico(3), "bird", errors.New("the server is busy")
	for _, check := range []string{facts.CheckTunnelSettings, facts.CheckBGPPeering, facts.CheckIPPools} {
		clustertest.WantFirst(t, ask(t, s, check), probe.Unknown, "busy")
	}
}
