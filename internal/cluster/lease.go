package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A kubelet renews its lease every 10 s, and the lease lasts 40 s (the kubelet's defaults). With any settings, it
// renews four times within one duration.
const (
	LeaseLate     = 20 * time.Second
	LeaseOver     = 40 * time.Second
	leaseRenewals = 4
)

// KubeletSilent reports whether the node's lease expired or never existed.
func KubeletSilent(s *Snapshot) bool {
	if apierrors.IsNotFound(s.Lease.Err) {
		return s.Now.Sub(s.Node.CreationTimestamp.Time) > LeaseOver
	}
	lease := s.Lease.Value
	return lease != nil && lease.Spec.RenewTime != nil && s.Now.Sub(lease.Spec.RenewTime.Time) > LeaseOver
}

// ReadyNow reports whether the API shows a node as ready.
func ReadyNow(n *corev1.Node) bool { return Readiness(n).Status == corev1.ConditionTrue }
