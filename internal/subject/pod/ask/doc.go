// Package ask answers the checks of paths of pods: their gateway, uplink and packet sizes, on the node. The probe
// alone links it.
package ask

import "github.com/calico-probe/calico-probe/probe"

// Checks are the checks of this subject, with what answers them.
func Checks() []*probe.Check {
	return []*probe.Check{podGatewayCheck, podMTUCheck, podPingCheck, podTCPCheck, podUplinkCheck}
}
