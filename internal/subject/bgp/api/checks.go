// Package api answers the checks of BGP that the API alone can answer, out of a cluster.Snapshot. The client alone
// links it. It reads nothing: what is not in the Snapshot, internal/cluster has to read.
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
			ID: facts.CheckBGPPeering, Asks: "do Calico's resources give this node a BGP peer?", Run: apicheck.Run(s, bgpPeering),
			Doc: `Where BIRD makes the routes to other nodes' pods, the node has to have a peer to learn them from: the other nodes, by the mesh that is on unless nodeToNodeMeshEnabled is false, or a router or route reflector by a BGPPeer. With the mesh off and BGPPeers whose selectors take no node (a label that was never set, or went with a node that was made anew) BIRD runs, is ready, and has no session.
ok: how many sessions follow from the resources, whether they are up or not (bgp-session). info: none does; that is wanted where the network itself knows each node's pods. BGPPeers that make no session on any node are named. warn: the address or selector of one cannot be read. skip: no BIRD runs here, or Felix makes the routes.`,
		},
	})
}
