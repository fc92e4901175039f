package checks

import (
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// seesProcesses tells whether the proc file system shows the node's processes:
// in a process namespace of its own the probe is the first one, or hidden.
func seesProcesses(h *probe.Host) bool {
	comm, err := kernel.ReadProc(h, "1/comm")
	return err == nil && strings.TrimSpace(comm) != "probe"
}

// noProcesses is the result of a check that needs them.
var noProcesses = probe.Found(probe.Skip, "the node's processes are not visible by this access method")
