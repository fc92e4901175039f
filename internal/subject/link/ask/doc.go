// Package ask answers the checks of the link: the node's uplink, addresses, neighbours and sysctls, on the node. The
// probe alone links it.
package ask

import "github.com/calico-probe/calico-probe/probe"

// Checks are the checks of this subject, with what answers them.
func Checks() []*probe.Check {
	return []*probe.Check{
		ipAutodetectCheck, neighbourReachCheck, nodeNeighboursCheck, nodePingCheck, nodeSysctlCheck, nodeUplinkCheck,
	}
}
