// Package cause has the causes of the start of calico-node: what each looks like in the findings of a run, and its
// fix. The client alone links it.
package cause

import "github.com/calico-probe/calico-probe/internal/diagnose"

// Rules are the causes of this subject.
var Rules = []*diagnose.Rule{
	upgradePodCIDR, upgradeLocked, upgradeNoAPI, upgradeStuck, installCNIFails, calicoImage, calicoPodMissing,
	webhookDead, kubeletRefused, calicoPodWaits, calicoLimit, typhaMissing, containerNotStarted, probeBroken,
	settingRefused, calicoForbidden, resourceMissing, nextStartRefused, calicoEnds, addressUnanswered, bgpRouterID,
	tunnelSettings, startUnderLoad, startFarDatastore, calicoNoToken, calicoUnprivileged, calicoOutOfMemory,
	calicoCPULimit, startOutlastsBudget, calicoStarting, breaksAtNextStart,
}
