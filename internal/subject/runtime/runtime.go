// Package runtime declares the checks of container runtimes, and the facts they report. Both binaries link it. Checks
// is the entry point. The package connects to nothing itself: package ask beside it does so on the node, and package
// cause draws the conclusions. Package suite draws the whole flow.
package runtime

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks returns the checks of this subject in display order.
func Checks() []*probe.Check {
	return []*probe.Check{ContainerdHealth, CRIHealth, DockerHealth, RuntimeGhosts}
}

// ContainerdHealth sends containerd four requests, because a hung containerd answers some requests and hangs on others.
// In the field, docker's ping worked for hours while no container could start.
var ContainerdHealth = &probe.Check{
	ID:   "containerd-health",
	From: probe.FromNode,
	Tags: []string{probe.TagRuntime}, Access: []string{"run/containerd", "uid 0"},
	Limit: 5 * time.Second,
}

// Facts of containerd-health.
const (
	FactShims    probe.Fact = "shims"     // shims that do not run: ID, process, state
	FactNotReady probe.Fact = "not_ready" // conditions of the CRI status that are false
)

// CRIHealth sends the kubelet's requests to the container runtime, with any runtime.
var CRIHealth = &probe.Check{
	ID: "cri-health", From: probe.FromNode,
	Tags: []string{probe.TagRuntime}, Access: []string{"run", "uid 0"},
}

// DockerHealth sends docker two requests, because its ping proves little. In the field, dockerd answered pings in
// milliseconds for an hour, while its containerd was down and no container could start.
var DockerHealth = &probe.Check{
	ID: "docker-health", From: probe.FromNode,
	Tags: []string{probe.TagRuntime}, Access: []string{"run/docker.sock", "uid 0"},
}

// RuntimeGhosts compares the containers that the runtime reports as running with the node's processes. In the field, an
// init container was "Running" for half an hour without a process: dockerd had lost its connection to containerd, and
// the kubelet trusted dockerd.
var RuntimeGhosts = &probe.Check{
	ID:   "runtime-ghosts",
	From: probe.FromNode, In: probe.Standard,
	Tags: []string{probe.TagRuntime}, Access: []string{"run", "uid 0", "host processes"},
	Limit: 10 * time.Second,
}

// FactGhosts lists the containers without a process, by name.
const FactGhosts probe.Fact = "ghosts"
