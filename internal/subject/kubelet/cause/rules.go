// Package cause has the causes of the kubelet: its certificates, its port, and the way to it: what each looks like in
// the findings of a run, and its fix. The client alone links it.
package cause

import "github.com/calico-probe/calico-probe/internal/diagnose"

// Rules are the causes of this subject.
var Rules = []*diagnose.Rule{
	swapOn, kubeletCertificate, kubeletDead, kubeletFrozen, kubeletRenamed, kubeletAuthority, kubeletCutOff,
	nodeUnreachable, kubeletServing, kubeletPortBlocked,
	kubeletRejectsServer, kubeletEnds, kubeletStateDiffers, kubeletRestarts,
	kubeletSilent, swapReturns, nodeFull, nodeCordoned, nodeUninitialized, networkCondition,
}
