// Package ask answers the checks of name resolution: cluster DNS and the node's resolvers, on the node. The probe
// alone links it.
package ask

import "github.com/calico-probe/calico-probe/probe"

// Checks are the checks of this subject, with what answers them.
func Checks() []*probe.Check {
	return []*probe.Check{dnsClusterCheck, dnsExternalCheck}
}
