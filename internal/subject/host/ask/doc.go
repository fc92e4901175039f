// Package ask answers the checks of the machine: memory, disks, load, clock, limits, its kernel, on the node. The
// probe alone links it.
package ask

import "github.com/calico-probe/calico-probe/probe"

// Checks are the checks of this subject, with what answers them.
func Checks() []*probe.Check {
	return []*probe.Check{
		kernelLogCheck, nodeClockCheck, nodeDiskCheck, nodeLimitsCheck, nodeLoadCheck, nodeMemoryCheck,
		nodeSwapCheck,
	}
}
