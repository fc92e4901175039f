package api

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

func TestCalicoControllers(t *testing.T) {
	t.Parallel()
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	clustertest.WantFirst(t, ask(t, s, facts.CheckControllers), probe.Skip, "no calico-kube-controllers")
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-kube-controllers-x"},
		Spec: corev1.PodSpec{NodeName: "a"}}
	s.Controllers.Value = []corev1.Pod{pod}
	clustertest.WantFirst(t, ask(t, s, facts.CheckControllers), probe.Warn, "no container")
	state := func(c corev1.ContainerStatus) {
		s.Controllers.Value[0].Status.ContainerStatuses = []corev1.ContainerStatus{c}
	}
	started := metav1.NewTime(s.Now.Add(-30 * cluster.Recent))
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}
	state(corev1.ContainerStatus{Ready: true, RestartCount: 2, State: running})
	clustertest.WantFirst(t, ask(t, s, facts.CheckControllers), probe.OK, "running and ready, 2 restarts, on a")
	state(corev1.ContainerStatus{State: running})
	clustertest.WantFirst(t, ask(t, s, facts.CheckControllers), probe.Warn, "not ready, 0 restarts, on a")
	state(corev1.ContainerStatus{RestartCount: 1, Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{
			StartedAt: metav1.NewTime(s.Now.Add(-cluster.Recent / 2)),
		}}})
	clustertest.WantFirst(t, ask(t, s, facts.CheckControllers), probe.Warn, "running for 5m, 1 restart")
	state(corev1.ContainerStatus{RestartCount: 7,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}})
	clustertest.WantFirst(t, ask(t, s, facts.CheckControllers), probe.Warn, "waiting: CrashLoopBackOff, 7 restarts, on a")
	s.Controllers.Value[0].Spec.NodeName = "b"
	clustertest.WantFirst(t, ask(t, s, facts.CheckControllers), probe.Info, "waiting: CrashLoopBackOff, 7 restarts, on b")
	s.Controllers.Err = errors.New("no route to host")
	clustertest.WantFirst(t, ask(t, s, facts.CheckControllers), probe.Unknown, "no route to host")
}

// TestNoControllers expects a warning about a Deployment without a pod, and a skip without a Deployment.
func TestNoControllers(t *testing.T) {
	t.Parallel()
	const folder = "/apis/apps/v1/namespaces/kube-system/deployments"
	const head = `{"kind":"DeploymentList","apiVersion":"apps/v1","items":[{"metadata":{"namespace":"kube-system","name":"c"},`
	for name, c := range map[string]struct {
		list, why string
		unread    bool
	}{
		"near: scaled to none": {list: head + `"spec":{"replicas":0}}]}`},
		"no reported reason":   {list: head + `"spec":{"replicas":1}}]}`, why: "Deployment kube-system/c has no pod"},
		"refused": {list: head + `"spec":{"replicas":1},"status":{"conditions":[{"type":"ReplicaFailure","status":"True","message":"error looking up service account"}]}}]}`,
			why: "Deployment kube-system/c cannot create a pod: error looking up service account"},
		"near: none": {list: `{"kind":"DeploymentList","apiVersion":"apps/v1","items":[]}`},
		"not listed": {list: `{"kind":"DeploymentList"`, unread: true},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		s.CalicoIn = []string{"kube-system"}
		server := clustertest.ServerOf(t, map[string]string{folder: c.list}, nil)
		server.CalicoIn = s.CalicoIn
		var all probe.Workers
		server.ReadAbsent(t.Context(), &s.Installation, false, &all)
		if all.Wait(); s.NoControllers.Value != c.why {
			t.Errorf("%s: %q", name, s.NoControllers.Value)
		}
		want := probe.Warn
		switch {
		case c.unread:
			want = probe.Unknown
		case c.why == "":
			want = probe.Skip
		}
		clustertest.WantFirst(t, ask(t, s, facts.CheckControllers), want, c.why)
	}
}
