package injector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// byEphemeral is the access method that adds a privileged ephemeral container to the node's calico-node pod. This
// method does not need the scheduler, a new pod sandbox or CNI. The container starts even while the pod's init
// containers hang. It sees the node through the pod's volumes.
func byEphemeral(c *Client) Open {
	return func(ctx context.Context, o Options) (*Session, error) {
		if refused, ok := errors.AsType[*PlacementError](o.CalicoErr); ok {
			return nil, refused
		}
		if o.CalicoErr != nil {
			return nil, unread("the calico-node pod of node "+o.Node, o.CalicoErr)
		}
		if o.Calico == nil {
			return nil, refuse(facts.ReasonNoCalico, "node %s has no calico-node pod to join", o.Node)
		}
		if err := c.RehearseEphemeral(ctx, o); Decided(err) {
			return nil, err
		}
		in := o.Calico.Namespace + "/" + o.Calico.Name
		pod, container, err := c.join(ctx, o, metav1.PatchOptions{})
		if err != nil {
			return nil, err
		}
		p := &placement{
			client: c, options: o, namespace: pod.Namespace, pod: pod.Name, container: container.Name, joined: true,
			created:    []string{"container " + container.Name + " in pod " + in},
			altered:    func(pod *corev1.Pod) string { return alteredEphemeral(container, o.Node, o.Calico.UID, pod) },
			afterwards: fmt.Sprintf("Kubernetes lists the exited container %s in pod %s until that pod is replaced", container.Name, in),
		}
		if err := p.awaitRunning(ctx, pod); err != nil {
			ends := fmt.Sprintf("if it starts later, it exits within %v, or immediately after a day", probe.Silence)
			if pe, ok := errors.AsType[*PlacementError](err); ok && pe.Reason == facts.ReasonAdmission {
				ends = fmt.Sprintf("with the policy's changes it may run until that pod is replaced ('kubectl -n %s delete pod %s')", pod.Namespace, pod.Name)
			}
			o.Note(fmt.Sprintf("container %s cannot be removed from pod %s; %s", container.Name, in, ends))
			return nil, err
		}
		return p.open(ctx), nil
	}
}

// join adds the ephemeral container to the node's calico-node pod.
func (c *Client) join(
	ctx context.Context, o Options, how metav1.PatchOptions,
) (*corev1.Pod, corev1.EphemeralContainer, error) {
	in := o.Calico.Namespace + "/" + o.Calico.Name
	container := ephemeralFor(o)
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"ephemeralContainers": []corev1.EphemeralContainer{
		container,
	}}})
	if err != nil {
		return nil, container, fmt.Errorf("encoding the ephemeral container: %w", err)
	}
	pod, err := c.kube.CoreV1().Pods(o.Calico.Namespace).Patch(ctx, o.Calico.Name, types.StrategicMergePatchType, patch,
		how, "ephemeralcontainers")
	switch {
	case apierrors.IsNotFound(err):
		return nil, container, refuse(facts.ReasonSupport, "pod %s is gone, or this cluster has no ephemeral containers (Kubernetes before 1.23)", in)
	case err != nil:
		return nil, container, refusedCreate("an ephemeral container in pod "+in, err)
	}
	return pod, container, nil
}

// ephemeralMaxAge is the maximum age of an ephemeral container when it starts. The limit is long because a probe must
// be able to report a wrong node clock.
const ephemeralMaxAge = 24 * time.Hour

// ephemeralName returns the container's name. Its prefix identifies leftovers.
func ephemeralName(run string) string { return managedBy + "-" + run }

func ephemeralFor(o Options) corev1.EphemeralContainer {
	root, proc, only, mounts := viewThrough(o.Calico)
	// Only a privileged container may open the node's root through process 1.
	security := &corev1.SecurityContext{
		Privileged: new(true), RunAsUser: new(int64(0)), ReadOnlyRootFilesystem: new(!o.Shell),
	}
	if o.DebugProfile != nil {
		security = o.DebugProfile.ephemeral.DeepCopy()
	}
	return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: ephemeralName(o.Run), Image: o.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		// The kubelet may start the container weeks later. It then exits at once.
		Args: append(sessionArgs(o, "ephemeral", root, only), "--proc", proc, "--not-after",
			time.Now().Add(ephemeralMaxAge).UTC().Format(time.RFC3339)),
		Stdin: true, StdinOnce: !o.Keep,
		SecurityContext: security,
		VolumeMounts:    mounts,
	}}
}

// viewThrough returns how a container in the pod sees the node. Since Calico v3.31 the pod mounts the node's /proc,
// where process 1 leads to the node's whole root. In older versions the pod mounts the directories that Calico uses.
// The container mounts them read-only at the same paths below a new root.
func viewThrough(pod *corev1.Pod) (root, proc string, only []string, mounts []corev1.VolumeMount) {
	for _, v := range pod.Spec.Volumes {
		if v.HostPath != nil && path.Clean(v.HostPath.Path) == "/proc" {
			return "/nodeproc/1/root", "/nodeproc", nil,
				[]corev1.VolumeMount{{Name: v.Name, MountPath: "/nodeproc", ReadOnly: true}}
		}
	}
	for _, v := range pod.Spec.Volumes {
		if v.HostPath == nil || !isDirectory(v.HostPath.Type) {
			continue
		}
		name := path.Clean(v.HostPath.Path)
		if strings.HasPrefix(name, "/sys") || strings.HasPrefix(name, "/lib") {
			continue // no check reads it
		}
		if strings.HasPrefix(name, "/var/run/") {
			name = strings.TrimPrefix(name, "/var") // the path that probe.Host reads
		}
		only = append(only, name)
		mounts = append(mounts, corev1.VolumeMount{Name: v.Name, MountPath: "/host" + name, ReadOnly: true})
	}
	return "/host", "/proc", only, mounts
}

func isDirectory(t *corev1.HostPathType) bool {
	return t == nil || *t == corev1.HostPathUnset || *t == corev1.HostPathDirectory ||
		*t == corev1.HostPathDirectoryOrCreate
}
