package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Patience is the time for which a starting or restarted container does not count as a fault. Calico itself starts
// within a few seconds.
const (
	Patience = 2 * time.Minute
	Recent   = 10 * time.Minute
)

// ConditionOfPod returns the time when a pod condition last changed, or zero if the pod does not have the condition.
func ConditionOfPod(p *corev1.Pod, t corev1.PodConditionType) metav1.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == t {
			return c.LastTransitionTime
		}
	}
	return metav1.Time{}
}

// Restartable reports whether a pod's init container is a sidecar, which keeps running alongside the other containers.
func Restartable(p *corev1.Pod, init string) bool {
	for _, c := range p.Spec.InitContainers {
		if c.Name == init {
			return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		}
	}
	return false
}

// CalicoContainerOf returns a calico-node pod's main container and its status. Each is nil if the pod does not have it.
func CalicoContainerOf(pod *corev1.Pod) (*corev1.Container, *corev1.ContainerStatus) {
	if pod == nil {
		return nil, nil
	}
	var spec *corev1.Container
	var status *corev1.ContainerStatus
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == CalicoContainer {
			spec = &pod.Spec.Containers[i]
		}
	}
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == CalicoContainer {
			status = &pod.Status.ContainerStatuses[i]
		}
	}
	return spec, status
}

// KillBudget returns the time that a container has from its start to its first successful probe, the seconds between
// two tries, and the probe that sets this limit. A startup probe delays the liveness probe.
func KillBudget(c *corev1.Container) (budget time.Duration, period int, which string) {
	p := c.StartupProbe
	which = "startup"
	if p == nil {
		p, which = c.LivenessProbe, "liveness"
	}
	if p == nil {
		return 0, 0, ""
	}
	s := p.InitialDelaySeconds + (max(p.FailureThreshold, 1)-1)*p.PeriodSeconds + p.TimeoutSeconds
	return time.Duration(s) * time.Second, int(p.PeriodSeconds), which
}
