// Package api answers the checks of tunnels between nodes that the API alone can answer, out of a cluster.Snapshot.
// The client alone links it. It reads nothing: what is not in the Snapshot, internal/cluster has to read.
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
			ID: facts.CheckTunnelSettings, Asks: "has this node the same settings of tunnels as the others?", Run: apicheck.Run(s, sameTunnels),
			Doc: `Each Felix takes its settings from the FelixConfiguration default, from one whose nodeSelector takes the node, and from node.NAME. Both ends of a tunnel have to have the same port and VNI: a node with another sends to a port where nobody listens and hears nothing, while everything on it calls itself healthy.
Compared are vxlanPort, vxlanVNI and vxlanEnabled where a pool has VXLAN, ipipEnabled where one has IPIP, and whether WireGuard is used.
ok: they are the same. fail: port or VNI differ, and this node is the odd one. warn: they differ and another node is that, or another setting differs: with WireGuard that may be meant so, while it is introduced.`,
		},
	})
}
