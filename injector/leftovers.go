package injector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/calico-probe/calico-probe/probe"
)

// Leftover is one of calico-probe's objects or containers that is still in the cluster.
type Leftover struct {
	Kind      string // "pod", "job", or "container" for an ephemeral one
	Namespace string
	Name      string
	Pod       string // the pod of a container
	Node      string
	Run       string
	Who       string
	Reason    string
	// InUse means that its client may be alive: it has not exited, and its lifetime has not expired.
	InUse bool
	// Fixed means that Kubernetes cannot remove it; it exits on its own.
	Fixed bool
	// Image, Privileged and Ran describe an ephemeral container. Ran is its running time by the API server's clock, at
	// least a nanosecond. 0 = not running, or unknown.
	Image      string
	Privileged bool
	Ran        time.Duration

	uid types.UID
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
	return probe.Line(strings.Join(parts, ", "))
}

// Leftovers lists the leftovers of runs in one namespace, or in all namespaces (""). It also finds our ephemeral
// containers that have not exited, in pods that calicoPods selects and that calicos accepts as calico-node. If some
// lists fail, it returns the objects of the other lists together with the error.
func (c *Client) Leftovers(
	ctx context.Context, namespace, calicoPods string, calicos func(*corev1.Pod) bool,
) ([]Leftover, error) {
	selector := labelManaged + "=" + managedBy + "," + labelName + "=" + managedBy + "," + labelRun
	labelled := metav1.ListOptions{LabelSelector: selector}
	var out []Leftover
	var errs []error
	pods, err := c.kube.CoreV1().Pods(namespace).List(ctx, labelled)
	if err != nil {
		errs = append(errs, fmt.Errorf("listing probe pods: %w", err))
	} else {
		for _, p := range pods.Items {
			ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
			out = append(out, c.leftover("pod", p.ObjectMeta, ended)...)
		}
	}
	jobs, err := c.kube.BatchV1().Jobs(namespace).List(ctx, labelled)
	if err != nil {
		errs = append(errs, fmt.Errorf("listing clean-up jobs: %w", err))
	} else {
		for _, j := range jobs.Items {
			out = append(out, c.leftover("job", j.ObjectMeta, jobFailed(&j))...)
		}
	}
	joined, err := c.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: calicoPods})
	if err != nil {
		errs = append(errs, fmt.Errorf("listing calico-node pods: %w", err))
	} else {
		for _, p := range joined.Items {
			if calicos(&p) {
				out = append(out, unendedContainers(p, c.now())...)
			}
		}
	}
	if namespace == "" && slices.ContainsFunc(errs, apierrors.IsForbidden) {
		errs = append(errs, errors.New("rights in one namespace may be enough: use -n NAMESPACE"))
	}
	return out, errors.Join(errs...)
}

// Dated reports whether the API server's time is known. Without that time, no object counts as expired.
func (c *Client) Dated() bool { return !c.now().IsZero() }

// leftover returns the Leftover for an object with our labels. If calico-probe cannot have chosen the object's name, it
// returns an empty list.
func (c *Client) leftover(kind string, m metav1.ObjectMeta, ended bool) []Leftover {
	run := m.Labels[labelRun]
	if !strings.HasPrefix(m.Name, managedBy+"-") || !strings.HasSuffix(m.Name, "-"+run) {
		return nil
	}
	return []Leftover{{
		Kind: kind, Namespace: m.Namespace, Name: m.Name, Node: m.Annotations[annotationNode], Run: run,
		Who: m.Annotations[annotationWho], Reason: m.Annotations[annotationReason],
		InUse: !ended && !expired(m, c.now()), uid: m.UID,
	}}
}

// clockWrong is the tolerated clock error of older clients, which wrote expiry times by their own clocks.
const clockWrong = 15 * time.Minute

// expired reports whether the lifetime of an object is over. now is the API server's time, because a wrong clock of
// this client must not end an active run. If now is zero (unknown), no object has expired.
func expired(m metav1.ObjectMeta, now time.Time) bool {
	if now.IsZero() {
		return false
	}
	if life, err := time.ParseDuration(m.Annotations[annotationLife]); err == nil {
		return now.After(m.CreationTimestamp.Add(life))
	}
	at, err := time.Parse(time.RFC3339, m.Annotations[annotationExpires])
	return err == nil && now.After(at.Add(clockWrong))
}

// now returns the API server's time, or zero if no response had it.
func (c *Client) now() time.Time {
	if at, known := c.clock.Now(); known {
		return at
	}
	return time.Time{}
}

func jobFailed(j *batchv1.Job) bool {
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// unendedContainers lists a pod's ephemeral containers that are ours and are running or waiting to start. now is the
// API server's time, or zero if unknown.
func unendedContainers(p corev1.Pod, now time.Time) []Leftover {
	var out []Leftover
	for _, c := range p.Spec.EphemeralContainers {
		run, ours := strings.CutPrefix(c.Name, managedBy+"-")
		if !ours {
			continue
		}
		l := Leftover{
			Kind: "container", Namespace: p.Namespace, Name: c.Name, Pod: p.Name, Node: p.Spec.NodeName, Run: run,
			InUse: true, Fixed: true, Image: probe.Line(c.Image),
			Privileged: c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged,
		}
		ended := false
		for _, s := range p.Status.EphemeralContainerStatuses {
			ended = ended || s.Name == c.Name && s.State.Terminated != nil
			if r := s.State.Running; s.Name == c.Name && r != nil && !now.IsZero() {
				l.Ran = max(now.Sub(r.StartedAt.Time), 1)
			}
		}
		if !ended {
			out = append(out, l)
		}
	}
	return out
}

// Remove deletes one leftover, but never a newer object with the same name. It succeeds if the leftover no longer
// exists.
func (c *Client) Remove(ctx context.Context, l Leftover) error {
	opts := metav1.DeleteOptions{
		PropagationPolicy: new(metav1.DeletePropagationBackground), Preconditions: &metav1.Preconditions{UID: &l.uid},
	}
	var err error
	switch l.Kind {
	case "pod":
		opts.GracePeriodSeconds = new(int64(0)) // a dead kubelet would never confirm a graceful deletion
		err = c.kube.CoreV1().Pods(l.Namespace).Delete(ctx, l.Name, opts)
	case "job":
		err = c.kube.BatchV1().Jobs(l.Namespace).Delete(ctx, l.Name, opts)
	default:
		return fmt.Errorf("a %s cannot be removed", l.Kind)
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting %s: %w", l, err)
	}
	return nil
}
