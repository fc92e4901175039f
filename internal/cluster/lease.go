package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A kubelet renews every 10 s and a lease runs for 40 s (kubelet's defaults): it renews four times within that,
// whatever it is.
const (
	LeaseLate     = 20 * time.Second
	LeaseOver     = 40 * time.Second
	leaseRenewals = 4
)

// KubeletSilent tells whether the node's lease has run out, or was never made.
func KubeletSilent(s *Snapshot) bool {
	if apierrors.IsNotFound(s.Lease.Err) {
		return s.Now.Sub(s.Node.CreationTimestamp.Time) > LeaseOver
	}
	lease := s.Lease.Value
	return lease != nil && lease.Spec.RenewTime != nil && s.Now.Sub(lease.Spec.RenewTime.Time) > LeaseOver
}

// ReadyNow reports whether the API calls a node ready.
func ReadyNow(n *corev1.Node) bool { return Readiness(n).Status == corev1.ConditionTrue }
