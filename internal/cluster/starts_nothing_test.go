package cluster

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// TestStartsNothing wants a node whose kubelet or runtime hangs told from one that starts containers.
func TestStartsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Snapshot)
		status probe.Status
		says   string
	}{
		"well": {func(*Snapshot) {}, "", ""},
		"a silent kubelet": {func(s *Snapshot) {
			renewed := metav1.NewMicroTime(s.Now.Add(-time.Minute))
			s.lease.Value = &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
		}, probe.Fail, "is silent"},
		"a runtime that is down": {func(s *Snapshot) {
			s.Node.Status.Conditions = []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "container runtime is down",
			}}
		}, probe.Fail, "does not answer its kubelet"},
		"without a network": {func(s *Snapshot) {
			s.Node.Status.Conditions = []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "network plugin is not ready",
			}}
		}, "", ""},
		"pods that wait": {func(s *Snapshot) {
			other := hanging("b", 3*time.Minute, "ContainerCreating", "")
			other.Namespace = "team-b"
			*s = *placedOn("", "", hanging("a", 3*time.Minute, "ContainerCreating", ""), other)
		}, probe.Unknown, "is not known"},
		"a pod without its image": {func(s *Snapshot) {
			*s = *placedOn("", "", hanging("a", time.Hour, "ImagePullBackOff", `Back-off pulling image "a": not found`))
		}, "", ""},
	} {
		s := snapshot(node("a", "10.1.0.1", "10.1.0.1/24"))
		c.change(s)
		r, said := StartsNothing(s)
		if said != (c.status != "") || r.Status != c.status || !strings.Contains(r.Saw, c.says) {
			t.Errorf("%s: %v %+v", name, said, r)
		}
	}
}
