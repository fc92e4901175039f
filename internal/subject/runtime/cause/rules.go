// Package cause has the causes of container runtimes, and of pods that they do not start: what each looks like in the
// findings of a run, and its fix. The client alone links it.
package cause

import "github.com/calico-probe/calico-probe/internal/diagnose"

// Rules are the causes of this subject.
var Rules = []*diagnose.Rule{
	runtimeEnds, dockerLostContainerd, containerdHangs, containerdDead, containerdWithoutCRI, dockerHangs,
	runtimeHangs, shimHangs, containerGhosts, runtimeStuck, limitReached, cniConfigElsewhere, snapshotterMissing,
	runtimeProxy, pauseImageMissing, cgroupDriversDiffer, cgroupsExhausted, systemdUnanswering, resolvConfMissing,
	imageStoreBroken, ociRuntimeBroken, sandboxFails, volumeNotMounted, registryRefuses, podsDoNotEnd,
}
