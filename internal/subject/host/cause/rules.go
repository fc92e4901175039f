// Package cause has the causes of the machine: memory, disks, load, clock, limits, ports, its kernel: what each looks
// like in the findings of a run, and its fix. The client alone links it.
package cause

import "github.com/calico-probe/calico-probe/internal/diagnose"

// Rules are the causes of this subject.
var Rules = []*diagnose.Rule{
	diskReadOnly, diskFull, evictionThreshold, memoryShort, queueHung, calicoKilled, componentKilled, kernelStuck,
	forwardingOff, noPortsLeft, conntrackFull, neighboursFull, clockWrong, rpFilterLoose, networkStorageDead,
	nodeOverloaded, portTaken,
}
