package cluster

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Waiting times: the kubelet checks its containers every second, and then reports to the API server.
const (
	tellingTakes = 3 * time.Second
	betweenLooks = 500 * time.Millisecond
)

// Again returns a new snapshot as soon as the API reports a changed container state in the calico-node pod, or nil if
// nothing changes within 3 seconds. It rereads only that pod and the time.
func (c *Client) Again(ctx context.Context, s *Snapshot) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, tellingTakes)
	defer cancel()
	for ctx.Err() == nil {
		pod, ignored, err := c.readCalicoPod(ctx, s.Node.Name)
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case err != nil:
			return nil, err
		case !sameContainers(s.Calico.Value, pod):
			now := *s
			now.Calico, now.ignored, now.Read = Read[*corev1.Pod]{Value: pod}, ignored, time.Now()
			now.Now = s.Now.Add(now.Read.Sub(s.Read))
			return &now, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(betweenLooks):
		}
	}
	return nil, nil
}

// If the kubelet is late to renew its lease, Unrenewed returns the snapshot at the current time. It returns nil if the
// lease cannot be read or was renewed, as on a slow node.
func (c *Client) Unrenewed(ctx context.Context, s *Snapshot) *Snapshot {
	before := s.Lease.Value
	if before == nil || before.Spec.RenewTime == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tellingTakes)
	defer cancel()
	lease, err := c.kube.CoordinationV1().Leases(before.Namespace).Get(ctx, before.Name, metav1.GetOptions{})
	if err != nil || lease.Spec.RenewTime == nil || !lease.Spec.RenewTime.Equal(before.Spec.RenewTime) {
		return nil
	}
	every := leaseDuration(lease) / leaseRenewals
	now := *s
	now.Read = time.Now()
	now.Now = s.Now.Add(now.Read.Sub(s.Read))
	if now.Now.Sub(lease.Spec.RenewTime.Time) <= every+tellingTakes {
		return nil
	}
	return &now
}

// sameContainers reports whether two reads of a pod show the same container states. nil = no pod.
func sameContainers(a, b *corev1.Pod) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && equality.Semantic.DeepEqual(a.Status.ContainerStatuses, b.Status.ContainerStatuses)
}
