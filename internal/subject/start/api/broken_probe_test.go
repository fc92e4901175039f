package api

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestBrokenProbe expects a fault about a restart loop, a warning after one restart, and no word about an event of an
// earlier container.
func TestBrokenProbe(t *testing.T) {
	const words = "Liveness probe failed: Error: unknown shorthand flag: 'l' in -l"
	for name, c := range map[string]struct {
		restarts int32
		event    time.Duration // before now
		want     probe.Status
		quoted   bool
	}{
		"in a loop":           {5, 50 * time.Second, probe.Fail, true},
		"once":                {1, 50 * time.Second, probe.Warn, true},
		"of the present run":  {5, 10 * time.Second, probe.Fail, true},
		"near: long ago":      {5, time.Hour, probe.Warn, false},
		"near: before a loop": {5, 3 * time.Minute, probe.Warn, false},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		s.Calico.Value = clustertest.Calico(3)
		s.Calico.Value.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "calico-node", Ready: true,
			RestartCount: c.restarts,
			State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: clustertest.Ago(20 * time.Second)}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137,
				StartedAt: clustertest.Ago(2 * time.Minute), FinishedAt: clustertest.Ago(30 * time.Second)}}}
		s.Startup.Value.Broken = cluster.BrokenIn([]corev1.Event{clustertest.KubeletEvent("Unhealthy", words, c.event)}, "a")
		got := ask(t, s, facts.CheckCalicoPod)
		if len(got) != 1 || got[0].Status != c.want || strings.Contains(got[0].Saw, words) != c.quoted ||
			(got[0].Facts[facts.BrokenProbe] != nil) != c.quoted {
			t.Errorf("%s: %v", name, got)
		}
	}
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-kube-controllers-x", UID: "u"}}
	p.Spec.NodeName = "a"
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "calico-node", RestartCount: 4,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: clustertest.Ago(20 * time.Second)}}}}
	s.Controllers.Value = []corev1.Pod{p}
	events := []corev1.Event{clustertest.KubeletEvent("Unhealthy", words, 5*time.Second)}
	s.Startup.Value.Others = map[types.UID]*cluster.BrokenProbe{"u": cluster.BrokenIn(events, "a")}
	clustertest.WantFirst(t, ask(t, s, facts.CheckControllers), probe.Fail, words)
}
