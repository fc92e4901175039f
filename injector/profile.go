package injector

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A Profile is one of kubectl's debug profiles. It replaces the rights of the probe's container, and nothing else of
// what is placed. So the pod never shares the host's IPC namespace, although kubectl's profiles for nodes do.
type Profile struct {
	Name           string
	pod, ephemeral *corev1.SecurityContext // of the container in a pod of its own, and in calico-node's pod
	mountsRoot     bool                    // the profile mounts the node's root directory, writable
}

// NewProfile returns the Profile that kubectl applies by this name (k8s.io/kubectl/pkg/cmd/debug). It refuses one that
// leaves a pod on a node without the host's namespaces: a probe outside them would describe its pod, not the node.
func NewProfile(name string, kubectl interface {
	Apply(pod *corev1.Pod, container string, target runtime.Object) error
}) (*Profile, error) {
	own := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: containerName}}}}
	joined := &corev1.Pod{Spec: corev1.PodSpec{EphemeralContainers: []corev1.EphemeralContainer{
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: containerName}},
	}}}
	if err := kubectl.Apply(own, containerName, &corev1.Node{}); err != nil {
		return nil, fmt.Errorf("applying it to a pod: %w", err)
	}
	if err := kubectl.Apply(joined, containerName, joined); err != nil {
		return nil, fmt.Errorf("applying it to an ephemeral container: %w", err)
	}
	if !own.Spec.HostNetwork || !own.Spec.HostPID {
		return nil, fmt.Errorf("kubectl's profile %s has no host namespaces, so its probe cannot test the node", name)
	}
	return &Profile{
		Name: name, pod: imposed(own.Spec.Containers[0].SecurityContext),
		ephemeral:  imposed(joined.Spec.EphemeralContainers[0].SecurityContext),
		mountsRoot: len(own.Spec.Containers[0].VolumeMounts) > 0,
	}, nil
}

// imposed adds to a security context of kubectl what holds for every probe: it is root, which owns the sockets of the
// node, and its own root file system is read-only.
func imposed(kubectl *corev1.SecurityContext) *corev1.SecurityContext {
	sc := cmp.Or(kubectl, &corev1.SecurityContext{})
	sc.RunAsUser, sc.ReadOnlyRootFilesystem = new(int64(0)), new(true)
	return sc
}

// writesNode reports whether the probe sees the node's files writable: only that of a root shell does, and under a
// debug profile only if kubectl's own pod does.
func writesNode(o Options) bool { return o.Shell && (o.Profile == nil || o.Profile.mountsRoot) }

// shellNote is what an auditor reads in the pod of a root shell.
func shellNote(o Options) string {
	rights, files := "privileged", "writable"
	if o.Profile != nil {
		rights = "debug profile " + o.Profile.Name
	}
	if !writesNode(o) {
		files = "read-only"
	}
	return fmt.Sprintf("root shell: %s, the node's files are %s", rights, files)
}
