package api

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestBGPPeering expects a report for a node without any peer, and the BGPPeers that create no session.
func TestBGPPeering(t *testing.T) {
	off := cluster.Specs{"default": {"nodeToNodeMeshEnabled": false}}
	reflector := func(nodes, peers string) cluster.Specs {
		return cluster.Specs{"rr": {"nodeSelector": nodes, "peerSelector": peers}}
	}
	for name, c := range map[string]struct {
		configs, peers, pools cluster.Specs
		backend               string
		status                probe.Status
		saw                   string
	}{
		"no peer": {configs: off, status: probe.Info, saw: "no BGPPeer selects this node"},
		"a selector of nothing": {configs: off, peers: reflector("all()", "route-reflector == 'true'"), status: probe.Info,
			saw: "without a session: rr (no node matches peerSelector route-reflector == 'true')"},
		"of no node": {configs: off, peers: cluster.Specs{"x": {"node": "gone", "peerIP": "10.88.0.254"}},
			status: probe.Info, saw: "x (node gone does not exist)"},
		"near: the mesh": {status: probe.OK, saw: "1 BGP session for this node"},
		"near: a router": {configs: off, peers: cluster.Specs{"tor": {"peerIP": "10.88.0.254"}},
			status: probe.OK, saw: "1 BGP session"},
		"near: VXLAN": {configs: off, pools: cluster.Specs{"p": {"cidr": "10.244.0.0/16",
			"vxlanMode": "Always"}}, status: probe.Skip, saw: "no route"},
		"near: no BIRD":          {configs: off, backend: "vxlan", status: probe.Skip, saw: "no Calico BIRD"},
		"near: a reflector here": {configs: off, peers: reflector("all()", "all()"), status: probe.OK, saw: "1 BGP session"},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.88.0.11", "10.88.0.11/24"),
			clustertest.Node("b", "10.88.0.12", "10.88.0.12/24"))
		s.Calico.Value, s.Backend.Value = clustertest.Calico(3), "bird"
		if c.backend != "" {
			s.Backend.Value = c.backend
		}
		s.Pools.Value = cluster.Specs{"p": {"cidr": "10.244.0.0/16", "ipipMode": "Always"}}
		if c.pools != nil {
			s.Pools.Value = c.pools
		}
		s.Peering.Peers.Value, s.Peering.Configs.Value = c.peers, c.configs
		t.Run(name, func(t *testing.T) { clustertest.WantFirst(t, ask(t, s, facts.CheckBGPPeering), c.status, c.saw) })
	}
}
