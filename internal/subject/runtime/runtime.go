// Package runtime names the checks of container runtimes, and the facts they report. Both binaries link it.
package runtime

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks are the checks of this subject, in the order in which they are shown.
func Checks() []*probe.Check {
	return []*probe.Check{ContainerdHealth, CRIHealth, DockerHealth, RuntimeGhosts}
}

// ContainerdHealth asks containerd four things, because a wedged one answers
// some and hangs on others: in the field, docker's ping was fine for hours while
// no container could start.
var ContainerdHealth = &probe.Check{
	ID:   "containerd-health",
	From: probe.FromNode,
	Tags: []string{probe.TagRuntime}, Access: []string{"run/containerd", "uid 0"},
	Limit: 5 * time.Second,
}

// Facts of the runtime check.
const (
	FactShims    probe.Fact = "shims"     // that do not run: ID, process, state
	FactNotReady probe.Fact = "not_ready" // conditions of the kubelet's interface that are false
)

// CRIHealth asks the container runtime what the kubelet asks it, whichever
// runtime that is.
var CRIHealth = &probe.Check{
	ID: "cri-health", From: probe.FromNode,
	Tags: []string{probe.TagRuntime}, Access: []string{"run", "uid 0"},
}

// DockerHealth asks docker twice, because its ping is no proof of life: in the
// field, dockerd answered it in milliseconds for an hour while the containerd
// behind it was gone and no container could start.
var DockerHealth = &probe.Check{
	ID: "docker-health", From: probe.FromNode,
	Tags: []string{probe.TagRuntime}, Access: []string{"run/docker.sock", "uid 0"},
}

// RuntimeGhosts compares what the runtime calls running with what runs. In the
// field an init container was "Running" for half an hour without any process:
// dockerd had lost its containerd, and the kubelet believed dockerd.
var RuntimeGhosts = &probe.Check{
	ID:   "runtime-ghosts",
	From: probe.FromNode, In: probe.Standard,
	Tags: []string{probe.TagRuntime}, Access: []string{"run", "uid 0", "host processes"},
	Limit: 10 * time.Second,
}

// Facts of runtime-ghosts.
const FactGhosts probe.Fact = "ghosts" // containers without a process, by name
