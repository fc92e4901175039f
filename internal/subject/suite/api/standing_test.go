package api

import (
	"fmt"
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

func TestStandings(t *testing.T) {
	t.Parallel()
	var f clustertest.Fleet
	long := metav1.NewTime(time.Now().Add(-10 * time.Minute))
	f.Add("b-well", nil)
	f.Add("a-well", nil)
	f.Add("cordoned", func(n *corev1.Node, _ *coordinationv1.Lease, _ *corev1.Pod) { n.Spec.Unschedulable = true })
	f.Add("windows", func(n *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) {
		n.Labels[corev1.LabelOSStable], p.Name = "windows", ""
	})
	f.Add("starting", func(_ *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) {
		p.CreationTimestamp = metav1.NewTime(time.Now().Add(-10 * time.Second))
		p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: cluster.CalicoContainer,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
	})
	f.Add("crashing", func(_ *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) {
		p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: cluster.CalicoContainer, RestartCount: 7,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}
	})
	f.Add("bare", func(_ *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) { p.Name = "" })
	f.Add("in-init", func(_ *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "install-cni"}}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "install-cni",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: long}}}}
	})
	f.Add("pressed", func(n *corev1.Node, _ *coordinationv1.Lease, _ *corev1.Pod) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure,
			Status: corev1.ConditionTrue, LastTransitionTime: long})
	})
	f.Add("silent", func(_ *corev1.Node, l *coordinationv1.Lease, _ *corev1.Pod) {
		l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-90 * time.Second)}
	})
	f.Add("claimed-twice", nil)
	twin := f.Pods[len(f.Pods)-1].DeepCopy()
	twin.Namespace = "calico-system"
	f.Pods = append(f.Pods, *twin)
	f.Add("posed", func(_ *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) {
		p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: cluster.CalicoContainer,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}
	})
	f.Pods = append(f.Pods, *clustertest.Tenants("posed", time.Now()))
	f.Add("leaseless", func(_ *corev1.Node, l *coordinationv1.Lease, _ *corev1.Pod) { l.Name = "" })
	f.Add("unready", func(n *corev1.Node, _ *coordinationv1.Lease, _ *corev1.Pod) {
		n.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse,
			LastTransitionTime: long, Reason: "KubeletNotReady", Message: "container runtime is down"}
	})
	got, gaps, err := Standings(t.Context(), f.Client(t))
	if err != nil || len(gaps) > 0 {
		t.Fatal(gaps, err)
	}
	want := []struct {
		node   string
		status probe.Status
		saw    string
	}{
		{"unready", probe.Fail, "KubeletNotReady: container runtime is down"},
		{"leaseless", probe.Fail, "has no lease"},
		{"silent", probe.Fail, "the lease has expired"},
		{"pressed", probe.Fail, "DiskPressure"},
		{"bare", probe.Fail, "no calico-node pod"},
		{"crashing", probe.Fail, "calico-node: waiting: CrashLoopBackOff"},
		{"in-init", probe.Fail, "calico-node: Init:0/1"},
		{"posed", probe.Fail, "calico-node: waiting: CrashLoopBackOff"},
		{"claimed-twice", probe.Unknown, "2 DaemonSets claim to be calico-node"},
		{"starting", probe.Warn, "PodInitializing"},
		{"cordoned", probe.OK, "cordoned; Ready for"},
		{"a-well", probe.OK, "Ready for"},
		{"b-well", probe.OK, "Ready for"},
		{"windows", probe.OK, "Windows"},
	}
	for i, w := range want {
		if i >= len(got) || got[i].Node != w.node || got[i].Status != w.status || !strings.Contains(got[i].Saw, w.saw) {
			t.Errorf("place %d: got %+v, want %v", i+1, got[min(i, len(got)-1)], w)
		}
	}

	// Without the right to read leases and pods, no node counts as silent or without Calico.
	got, gaps, err = Standings(t.Context(), f.Client(t, "/leases", "/pods"))
	if err != nil || len(gaps) != 2 || got[0].Node != "unready" || got[1].Node != "pressed" ||
		got[2].Node != "cordoned" || got[3].Status != probe.Unknown {
		t.Errorf("%v, %v, %v", got, gaps, err)
	}
	if _, _, err := Standings(t.Context(), f.Client(t, "/nodes")); err == nil {
		t.Error("no error without nodes")
	}
}

func TestStandingsOfManyNodes(t *testing.T) {
	t.Parallel()
	var f clustertest.Fleet
	for i := range 1000 {
		f.Add(fmt.Sprintf("worker-%04d", i), nil)
	}
	f.Nodes[777].Status.Conditions[0].Status = corev1.ConditionFalse
	got, _, err := Standings(t.Context(), f.Client(t))
	if err != nil || len(got) != 1000 || got[0].Node != "worker-0777" || got[1].Node != "worker-0000" {
		t.Errorf("%d nodes, %v", len(got), err)
	}
}
