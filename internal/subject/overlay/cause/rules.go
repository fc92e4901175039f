// Package cause has the causes of tunnels: what each looks like in the findings of a run, and its fix. The client
// alone links it.
package cause

import "github.com/calico-probe/calico-probe/internal/diagnose"

// Rules are the causes of this subject.
var Rules = []*diagnose.Rule{
	foreignTunnel, tunnelDevice, tunnelPeers, tunnelSourceUnknown, tunnelRefused, tunnelFiltered, vxlanOffload,
	mtuTooBig, mtuPathSmall,
}
