// Package cause has the causes of settings in which a node differs from a healthy one: what each looks like in the
// findings of a run, and its fix. The client alone links it.
package cause

import "github.com/calico-probe/calico-probe/internal/diagnose"

// Rules are the causes of this subject.
var Rules = []*diagnose.Rule{
	peerDiffers, nodeDiffers,
}
