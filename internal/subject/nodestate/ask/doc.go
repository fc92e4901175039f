// Package ask answers the checks of the node's settings, for comparison with a baseline node, on the node. The probe
// alone links it.
package ask

import "github.com/calico-probe/calico-probe/probe"

// Checks are the checks of this subject, with what answers them.
func Checks() []*probe.Check {
	return []*probe.Check{nodeStateCheck}
}
