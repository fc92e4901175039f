package cluster

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A kubelet renews its lease four times within the lease's duration, which is 40 s by default. A node writes its own
// lease, so a duration above maxLease is not trusted.
const (
	usualLease    = 40 * time.Second
	maxLease      = 5 * time.Minute
	leaseRenewals = 4
)

// LeaseOver returns the time after which the node's lease expires. If the controller-manager has given up on the node,
// the lease has expired, whatever duration the node wrote.
func (s *Snapshot) LeaseOver() time.Duration {
	if s.Node != nil && Readiness(s.Node).Status == corev1.ConditionUnknown {
		return usualLease
	}
	return leaseDuration(s.Lease.Value)
}

func leaseDuration(lease *coordinationv1.Lease) time.Duration {
	if lease == nil || lease.Spec.LeaseDurationSeconds == nil {
		return usualLease
	}
	d := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	if d <= 0 || d > maxLease {
		return usualLease
	}
	return d
}

// KubeletSilent reports whether the node's lease expired or never existed.
func KubeletSilent(s *Snapshot) bool {
	if apierrors.IsNotFound(s.Lease.Err) {
		return s.Now.Sub(s.Node.CreationTimestamp.Time) > s.LeaseOver()
	}
	lease := s.Lease.Value
	return lease != nil && lease.Spec.RenewTime != nil && s.Now.Sub(lease.Spec.RenewTime.Time) > s.LeaseOver()
}

// ReadyNow reports whether the API shows a node as ready.
func ReadyNow(n *corev1.Node) bool { return Readiness(n).Status == corev1.ConditionTrue }
