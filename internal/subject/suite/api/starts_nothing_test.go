package api

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
)

// TestStartsNothing distinguishes a node with a hanging kubelet or runtime from one that starts containers.
func TestStartsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*cluster.Snapshot)
		status probe.Status
		saw    string
	}{
		"well": {func(*cluster.Snapshot) {}, "", ""},
		"a silent kubelet": {func(s *cluster.Snapshot) {
			renewed := metav1.NewMicroTime(s.Now.Add(-time.Minute))
			s.Lease.Value = &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
		}, probe.Fail, "is silent"},
		"a runtime that is down": {func(s *cluster.Snapshot) {
			s.Node.Status.Conditions = []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "container runtime is down",
			}}
		}, probe.Fail, "does not answer the kubelet"},
		"without a network": {func(s *cluster.Snapshot) {
			s.Node.Status.Conditions = []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "network plugin is not ready",
			}}
		}, "", ""},
		"pods that wait": {func(s *cluster.Snapshot) {
			other := clustertest.Hanging("b", 3*time.Minute, "ContainerCreating", "")
			other.Namespace = "team-b"
			*s = *clustertest.PlacedOn("", "", clustertest.Hanging("a", 3*time.Minute, "ContainerCreating", ""), other)
		}, probe.Unknown, "unknown whether"},
		"a pod without its image": {func(s *cluster.Snapshot) {
			*s = *clustertest.PlacedOn("", "", clustertest.Hanging("a", time.Hour, "ImagePullBackOff", `Back-off pulling image "a": not found`))
		}, "", ""},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.1.0.1", "10.1.0.1/24"))
		c.change(s)
		r, found := StartsNothing(s)
		if found != (c.status != "") || r.Status != c.status || !strings.Contains(r.Saw, c.saw) {
			t.Errorf("%s: %v %+v", name, found, r)
		}
	}
}
