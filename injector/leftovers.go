package injector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Leftover is something of ours that is on the cluster.
type Leftover struct {
	Kind      string // "pod", "job", or "container" for an ephemeral one
	Namespace string
	Name      string
	Pod       string // of a container, the pod it is in
	Node      string
	Who       string
	Reason    string
	// InUse says that its client may be alive: it is neither ended nor expired.
	InUse bool
	// Fixed says that Kubernetes has no way to remove it; it ends by itself.
	Fixed bool
}

func (l Leftover) String() string {
	name := l.Name
	if l.Pod != "" {
		name = l.Pod + "/" + l.Name
	}
	parts := []string{fmt.Sprintf("%s %s/%s on node %s", l.Kind, l.Namespace, name, l.Node)}
	if l.Who != "" {
		parts = append(parts, "created by "+l.Who)
	}
	if l.Reason != "" {
		parts = append(parts, "reason: "+l.Reason)
	}
	return strings.Join(parts, ", ")
}

// Leftovers lists what runs have left, in one namespace or in all (""). Ephemeral
// containers that have not ended are looked for in the pods that calicoPods selects and
// that are calico-node's. Objects that could be listed are returned beside the error of
// those that could not.
func (c *Client) Leftovers(
	ctx context.Context, namespace, calicoPods string, calicos func(*corev1.Pod) bool,
) ([]Leftover, error) {
	ours := metav1.ListOptions{LabelSelector: labelManaged + "=" + managedBy}
	var out []Leftover
	var errs []error
	pods, err := c.kube.CoreV1().Pods(namespace).List(ctx, ours)
	if err != nil {
		errs = append(errs, fmt.Errorf("listing probe pods: %w", err))
	} else {
		for _, p := range pods.Items {
			ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
			out = append(out, leftover("pod", p.ObjectMeta, ended))
		}
	}
	jobs, err := c.kube.BatchV1().Jobs(namespace).List(ctx, ours)
	if err != nil {
		errs = append(errs, fmt.Errorf("listing clean-up jobs: %w", err))
	} else {
		for _, j := range jobs.Items {
			out = append(out, leftover("job", j.ObjectMeta, jobFailed(&j)))
		}
	}
	joined, err := c.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: calicoPods})
	if err != nil {
		errs = append(errs, fmt.Errorf("listing calico-node pods: %w", err))
	} else {
		for _, p := range joined.Items {
			if calicos(&p) {
				out = append(out, waitingIn(p)...)
			}
		}
	}
	return out, errors.Join(errs...)
}

func leftover(kind string, m metav1.ObjectMeta, ended bool) Leftover {
	expires, err := time.Parse(time.RFC3339, m.Annotations[annotationExpires])
	expired := err == nil && time.Now().After(expires)
	return Leftover{
		Kind: kind, Namespace: m.Namespace, Name: m.Name, Node: m.Annotations[annotationNode],
		Who: m.Annotations[annotationWho], Reason: m.Annotations[annotationReason],
		InUse: !ended && !expired,
	}
}

func jobFailed(j *batchv1.Job) bool {
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// waitingIn lists our ephemeral containers in a pod that have not ended: they run,
// or wait to start.
func waitingIn(p corev1.Pod) []Leftover {
	var out []Leftover
	for _, c := range p.Spec.EphemeralContainers {
		if !strings.HasPrefix(c.Name, managedBy+"-") {
			continue
		}
		l := Leftover{Kind: "container", Namespace: p.Namespace, Name: c.Name, Pod: p.Name, Node: p.Spec.NodeName, InUse: true, Fixed: true}
		ended := false
		for _, s := range p.Status.EphemeralContainerStatuses {
			ended = ended || s.Name == c.Name && s.State.Terminated != nil
		}
		if !ended {
			out = append(out, l)
		}
	}
	return out
}

// Remove deletes one leftover; that it is gone already is no error.
func (c *Client) Remove(ctx context.Context, l Leftover) error {
	opts := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	var err error
	switch l.Kind {
	case "pod":
		opts.GracePeriodSeconds = new(int64(0)) // a dead kubelet would never confirm more
		err = c.kube.CoreV1().Pods(l.Namespace).Delete(ctx, l.Name, opts)
	case "job":
		err = c.kube.BatchV1().Jobs(l.Namespace).Delete(ctx, l.Name, opts)
	default:
		return fmt.Errorf("a %s cannot be removed", l.Kind)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s: %w", l, err)
	}
	return nil
}
