// Package runtime names the checks of container runtimes, and the facts they report. Both binaries link it.
package runtime

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// ContainerdHealth asks containerd four things, because a wedged one answers
// some and hangs on others: in the field, docker's ping was fine for hours while
// no container could start.
var ContainerdHealth = &probe.Check{
	ID: "containerd-health", Asks: "does containerd answer, in every part that the kubelet needs?",
	From: probe.FromNode,
	Tags: []string{probe.TagRuntime}, Access: []string{"run/containerd", "uid 0"},
	Limit: 5 * time.Second,
	Doc: `Four calls, each with two fifths of the check's time (two seconds): version (does the daemon speak), health (its health service), cri-status (the interface the kubelet uses: RuntimeReady and NetworkReady; not behind docker, where the kubelet does not use it), tasks (the list of running containers, which a frozen shim blocks; it is named where the node's processes are visible, by the ID of its pod as crictl pods shows it).
ok: answered, and in order. fail, no answer: it accepts the connection but does not answer, so no container can start or stop on this node. fail, refused: the socket is left over and the daemon is dead. fail, NetworkReady is false: no usable CNI configuration; Calico writes it when its install-cni has run.
skip: the kubelet uses another runtime. unknown: there is no socket, and the plan does not say which runtime the node uses.`,
}

// Facts of the runtime check.
const (
	FactShims    probe.Fact = "shims"     // that do not run: ID, process, state
	FactNotReady probe.Fact = "not_ready" // conditions of the kubelet's interface that are false
)

// CRIHealth asks the container runtime what the kubelet asks it, whichever
// runtime that is.
var CRIHealth = &probe.Check{
	ID: "cri-health", Asks: "does the container runtime answer the kubelet's interface?", From: probe.FromNode,
	Tags: []string{probe.TagRuntime}, Access: []string{"run", "uid 0"},
	Doc: `The socket that the kubelet is set to use, or the usual one of the runtime it reports (containerd, k3s, RKE2, k0s, MicroK8s, CRI-O, cri-dockerd, dockershim), is asked for its version, its running containers and its status, each with two fifths of the check's time (two seconds). The status of containerd is asked by containerd-health.
ok: answered, and in order. fail: no answer in time, refused, or RuntimeReady or NetworkReady is false. NetworkReady turns false when there is no usable file in /etc/cni/net.d.
skip: not visible by this access method. unknown: there is no socket, and the plan does not say which runtime the node uses.`,
}

// DockerHealth asks docker twice, because its ping is no proof of life: in the
// field, dockerd answered it in milliseconds for an hour while the containerd
// behind it was gone and no container could start.
var DockerHealth = &probe.Check{
	ID: "docker-health", Asks: "does dockerd answer, and the containerd behind it?", From: probe.FromNode,
	Tags: []string{probe.TagRuntime}, Access: []string{"run/docker.sock", "uid 0"},
	Doc: `/_ping is answered by dockerd alone; /info asks the containerd behind it.
ok: both answer. fail, info without answer while ping is ok: dockerd lives but its containerd does not answer: no container starts or stops on this node, and the state of containers is stale. fail, no answer at all: dockerd itself is frozen. fail, refused: dockerd is dead and its socket was left. fail, no socket: the kubelet uses docker, and it is not there.
skip: the kubelet uses another runtime, or there is no docker on this node; or it is not known which runtime the kubelet uses, and nothing shows that docker is awake, which asking could start.`,
}

// RuntimeGhosts compares what the runtime calls running with what runs. In the
// field an init container was "Running" for half an hour without any process:
// dockerd had lost its containerd, and the kubelet believed dockerd.
var RuntimeGhosts = &probe.Check{
	ID: "runtime-ghosts", Asks: "does every container that the runtime reports as running have a process?",
	From: probe.FromNode, In: probe.Standard,
	Tags: []string{probe.TagRuntime}, Access: []string{"run", "uid 0", "host processes"},
	Limit: 10 * time.Second,
	Doc: `The runtime (containerd or CRI-O by the kubelet's interface, docker by its own) is asked for the containers it calls running, at most 500, and for the first process of each. That process is then looked for on the node. A container whose process is gone is asked for again, up to three times two seconds apart, for it may just have ended.
ok: each has one. fail: some have none, or one that is dead and that nobody collects: the kubelet believes the runtime and will never start them again. The runtime has missed their end: its shim is frozen, or dockerd has lost its containerd (containerd-health, docker-health). Restarting the runtime sets its state right; containers that live stay alive.
unknown: the runtime did not answer; or not one of the processes it names is there, so that this probe seems to see those of another machine. skip: the node's processes are not visible by this access method.`,
}

// Facts of runtime-ghosts.
const FactGhosts probe.Fact = "ghosts" // containers without a process, by name
