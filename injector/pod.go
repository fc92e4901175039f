package injector

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// byPod is the access method that creates a pod for the probe. The pod is bound to the node by name, and shares the
// node's network and process namespaces. It mounts the node's files, read-only unless it is for a shell.
func byPod(c *Client) Open {
	return func(ctx context.Context, o Options) (*Session, error) {
		if err := c.RehearsePod(ctx, o); Decided(err) {
			return nil, err
		}
		// The name is chosen before the request, so that the pod can be removed even if the response never arrives.
		p := &placement{client: c, options: o, namespace: o.Namespace, pod: nameFor(o.Node, o.Run), container: containerName}
		requested := podFor(o, p.startJanitor(ctx))
		p.altered = func(pod *corev1.Pod) string { return alteredPod(requested, pod) }
		pod, err := c.kube.CoreV1().Pods(o.Namespace).Create(ctx, requested, metav1.CreateOptions{})
		if err != nil {
			if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) ||
				apierrors.IsAlreadyExists(err) {
				p.pod = "" // this request did not create it
			}
			return nil, p.abandon(refusedCreate("a pod in namespace "+o.Namespace, err))
		}
		p.created = append(p.created, "pod "+o.Namespace+"/"+pod.Name)
		if err := p.awaitRunning(ctx, pod); err != nil {
			return nil, p.abandon(err)
		}
		return p.open(ctx), nil
	}
}

// podFor returns the probe's pod.
func podFor(o Options, owner *metav1.OwnerReference) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metaFor(o),
		Spec: corev1.PodSpec{
			NodeName:    o.Node, // no scheduler needed
			HostNetwork: true,   // needs no CNI, and is the network to test
			HostPID:     true,   // to see the node's processes and enter pods' namespaces
			DNSPolicy:   corev1.DNSDefault,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},

			RestartPolicy:                 corev1.RestartPolicyNever,
			ActiveDeadlineSeconds:         new(int64((o.Whole + margin).Seconds())),
			TerminationGracePeriodSeconds: new(int64(1)),
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),

			Containers: []corev1.Container{{
				Name: containerName, Image: o.Image, ImagePullPolicy: corev1.PullIfNotPresent,
				Args:  sessionArgs(o, methodOf(o), "/host", nil),
				Stdin: true, StdinOnce: !o.Keep, // the probe's stdin closes when its client exits
				SecurityContext: securityFor(o),
				Resources:       resourcesFor(o),
				VolumeMounts:    []corev1.VolumeMount{hostFor(o)},
			}},
			// Mount the whole root: if a single mounted path were missing on the node, the runtime would create it.
			Volumes: []corev1.Volume{
				{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
			},
		},
	}
	if owner != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	if o.PullSecret != "" {
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: o.PullSecret}}
	}
	if p := pod.Spec.Containers[0].SecurityContext.AppArmorProfile; p != nil {
		// Kubernetes before 1.30 does not have the AppArmor field.
		pod.Annotations[annotationAppArmor+containerName] = strings.ToLower(string(p.Type))
	}
	return pod
}

// hostFor returns the mount of the node's files.
func hostFor(o Options) corev1.VolumeMount {
	if writesNode(o) {
		return corev1.VolumeMount{Name: "host", MountPath: "/host"}
	}
	return corev1.VolumeMount{
		Name: "host", MountPath: "/host", ReadOnly: true, RecursiveReadOnly: new(corev1.RecursiveReadOnlyIfPossible),
	}
}

// resourcesFor requests zero resources, so a full node accepts the probe without evicting another pod. The probe has no
// priority, so it is evicted first if memory is short. The zeros are explicit, because otherwise the limit or a
// LimitRange default would become the request.
func resourcesFor(o Options) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("0"), corev1.ResourceMemory: resource.MustParse("0"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
	}
	if o.Shell { // no limit: it would also count the user's programs and files in a tmpfs
		r.Limits = nil
	}
	return r
}

// securityFor returns the smallest set of privileges that the checks need. For a shell it returns all privileges, or
// those of a debug profile.
func securityFor(o Options) *corev1.SecurityContext {
	if o.DebugProfile != nil {
		return o.DebugProfile.pod.DeepCopy()
	}
	if o.Shell { // the toolbox's files stay writable
		return &corev1.SecurityContext{Privileged: new(true), RunAsUser: new(int64(0))}
	}
	if o.Privileged {
		return &corev1.SecurityContext{Privileged: new(true), RunAsUser: new(int64(0)), ReadOnlyRootFilesystem: new(true)}
	}
	var add []corev1.Capability
	for _, c := range o.Needed {
		add = append(add, corev1.Capability(c))
	}
	sc := &corev1.SecurityContext{
		RunAsUser:              new(int64(0)), // the sockets of containerd and BIRD belong to root
		RunAsGroup:             new(int64(0)),
		ReadOnlyRootFilesystem: new(true),
		Capabilities:           &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: add},
		SeccompProfile:         &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		// With SELinux, the default type does not have permission to connect to the node's sockets.
		SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"},
	}
	if slices.Contains(o.Needed, "SYS_PTRACE") {
		// A runtime's default profile hides all processes that are not confined by it.
		sc.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	}
	if !slices.Contains(o.Needed, "SYS_ADMIN") { // the API rejects both together
		sc.AllowPrivilegeEscalation = new(false)
	}
	return sc
}

// methodOf returns the access method in the arguments of a probe with its own pod.
func methodOf(o Options) string {
	if o.Shell {
		return "shell"
	}
	return "pod"
}

// sessionArgs returns the probe's arguments, which auditors can read in the pod.
func sessionArgs(o Options, method, root string, only []string) []string {
	args := []string{"session", "--root", root, "--node", o.Node, "--method", method,
		"--life", (o.Whole + margin).String()}
	if len(only) > 0 {
		args = append(args, "--only", strings.Join(only, ","))
	}
	return args
}

func metaFor(o Options) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Name:      nameFor(o.Node, o.Run),
		Namespace: o.Namespace,
		Labels:    map[string]string{labelManaged: managedBy, labelName: managedBy, labelRun: o.Run},
		Annotations: map[string]string{
			annotationNode: o.Node, annotationWho: o.Who, annotationReason: o.Reason,
			annotationChecks: strings.Join(o.Checks, ","),
			annotationLife:   (o.Whole + margin).String(),
		},
	}
	if o.Shell {
		meta.Annotations[annotationShell] = shellNote(o)
	}
	return meta
}

// nameFor returns a name that is unique for its run and node. The name has at most 63 characters and no dot. A
// shortened name gets a hash, because node names may be longer, share a prefix, or differ only in a dot.
func nameFor(node, run string) string {
	const longest = 63
	room := longest - len(managedBy) - len(run) - 2
	whole := strings.ToLower(node)
	node = strings.ReplaceAll(whole, ".", "-")
	if node != whole || len(node) > room {
		h := fnv.New32a()
		h.Write([]byte(whole)) // never fails (hash.Hash)
		node = fmt.Sprintf("%s-%08x", strings.Trim(node[:min(len(node), room-9)], "-"), h.Sum32())
	}
	return fmt.Sprintf("%s-%s-%s", managedBy, strings.Trim(node, "-"), run)
}

// abandon removes the objects of a probe that did not start, and tells the user which objects remain.
func (p *placement) abandon(err error) error {
	if left := p.remove(false, false); left != nil {
		p.options.Note(left.Error())
	}
	return err
}

// remove deletes the created objects. The error contains the command that removes any remaining objects.
func (p *placement) remove(answered, ended bool) error {
	if left := p.removed(answered, ended); left != nil {
		return fmt.Errorf("%w; remove the rest with 'calico-probe clean --run %s'", left, p.options.Run)
	}
	return nil
}

// removed deletes the created objects. If the probe exited or never answered, it deletes the pod without a grace
// period: a dead kubelet would never confirm a graceful deletion. If the probe answered and may still run, the pod
// stays in the API until the kubelet has stopped it.
func (p *placement) removed(answered, ended bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanLimit)
	defer cancel()
	var left error
	grace := int64(0)
	if answered && !ended {
		grace = 1
	}
	switch {
	case p.joined && !ended:
		p.options.Note(fmt.Sprintf("container %s in pod %s/%s may still run: if it is our probe it exits within %v, otherwise run 'kubectl -n %s delete pod %s'",
			p.container, p.namespace, p.pod, probe.Silence, probe.Quote(p.namespace), probe.Quote(p.pod)))
	case !p.joined && p.pod != "":
		left = p.client.kube.CoreV1().Pods(p.namespace).Delete(ctx, p.pod, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	}
	unswept := p.stopJanitor(ctx)
	switch {
	case left == nil, apierrors.IsNotFound(left):
		return unswept
	case apierrors.IsForbidden(left) && p.job != "" && unswept == nil:
		p.options.Note(fmt.Sprintf("no right to delete pod %s/%s: its clean-up job removes it within seconds", p.namespace, p.pod))
		return nil
	}
	return errors.Join(fmt.Errorf("deleting pod %s/%s: %w", p.namespace, p.pod, left), unswept)
}
