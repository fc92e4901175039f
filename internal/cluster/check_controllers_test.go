package cluster

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

func TestCalicoControllers(t *testing.T) {
	t.Parallel()
	s := snapshot(node("a", "10.0.0.1", ""))
	wantFirst(t, ask(t, s, facts.CheckControllers), probe.Skip, "no calico-kube-controllers")
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-kube-controllers-x"},
		Spec: corev1.PodSpec{NodeName: "a"}}
	s.controllers.Value = []corev1.Pod{pod}
	wantFirst(t, ask(t, s, facts.CheckControllers), probe.Warn, "no container")
	state := func(c corev1.ContainerStatus) {
		s.controllers.Value[0].Status.ContainerStatuses = []corev1.ContainerStatus{c}
	}
	started := metav1.NewTime(s.Now.Add(-30 * recent))
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}
	state(corev1.ContainerStatus{Ready: true, RestartCount: 2, State: running})
	wantFirst(t, ask(t, s, facts.CheckControllers), probe.OK, "running and ready, 2 restarts, on a")
	state(corev1.ContainerStatus{State: running})
	wantFirst(t, ask(t, s, facts.CheckControllers), probe.Warn, "not ready, 0 restarts, on a")
	state(corev1.ContainerStatus{RestartCount: 1, Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{
			StartedAt: metav1.NewTime(s.Now.Add(-recent / 2)),
		}}})
	wantFirst(t, ask(t, s, facts.CheckControllers), probe.Warn, "running for 5m, 1 restart")
	state(corev1.ContainerStatus{RestartCount: 7,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}})
	wantFirst(t, ask(t, s, facts.CheckControllers), probe.Warn, "waits: CrashLoopBackOff, 7 restarts, on a")
	s.controllers.Value[0].Spec.NodeName = "b"
	wantFirst(t, ask(t, s, facts.CheckControllers), probe.Info, "waits: CrashLoopBackOff, 7 restarts, on b")
	s.controllers.Err = errors.New("no route to host")
	wantFirst(t, ask(t, s, facts.CheckControllers), probe.Unknown, "no route to host")
}

// TestNoControllers wants a Deployment told that has no pod, and none where there is no Deployment.
func TestNoControllers(t *testing.T) {
	t.Parallel()
	const folder = "/apis/apps/v1/namespaces/kube-system/deployments"
	const head = `{"kind":"DeploymentList","apiVersion":"apps/v1","items":[{"metadata":{"namespace":"kube-system","name":"c"},`
	for name, c := range map[string]struct {
		list, why string
		unread    bool
	}{
		"near: scaled to none": {list: head + `"spec":{"replicas":0}}]}`},
		"nobody says why":      {list: head + `"spec":{"replicas":1}}]}`, why: "Deployment kube-system/c has no pod"},
		"refused": {list: head + `"spec":{"replicas":1},"status":{"conditions":[{"type":"ReplicaFailure","status":"True","message":"error looking up service account"}]}}]}`,
			why: "Deployment kube-system/c can make no pod: error looking up service account"},
		"near: none": {list: `{"kind":"DeploymentList","apiVersion":"apps/v1","items":[]}`},
		"not listed": {list: `{"kind":"DeploymentList"`, unread: true},
	} {
		s := snapshot(node("a", "10.0.0.1", ""))
		s.calicoIn = []string{"kube-system"}
		server := serverOf(t, map[string]string{folder: c.list}, nil)
		server.calicoIn = s.calicoIn
		var all probe.Workers
		server.readAbsent(t.Context(), &s.installation, false, &all)
		if all.Wait(); s.noControllers.Value != c.why {
			t.Errorf("%s: %q", name, s.noControllers.Value)
		}
		want := probe.Warn
		switch {
		case c.unread:
			want = probe.Unknown
		case c.why == "":
			want = probe.Skip
		}
		wantFirst(t, ask(t, s, facts.CheckControllers), want, c.why)
	}
}

// TestCalicosLogs wants the logs of Calico's own pods on the node, and of no pod that has their label alone.
func TestCalicosLogs(t *testing.T) {
	t.Parallel()
	pod := func(namespace, app, on string, owned bool) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app + "-x", UID: "u",
			Labels: map[string]string{"k8s-app": app}}, Spec: corev1.PodSpec{NodeName: on}}
		if owned {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: app, Controller: new(true)}}
		}
		return p
	}
	s := snapshot(node("a", "10.0.0.1", ""))
	s.controllers.Value = []corev1.Pod{pod("kube-system", "calico-kube-controllers", "a", true),
		pod("kube-system", "calico-kube-controllers", "b", true)}
	got := s.calicosLogs([]corev1.Pod{pod("kube-system", "calico-typha", "a", true),
		pod("shop", "calico-typha", "a", true), pod("kube-system", "calico-typha", "a", false)})
	if len(got) != 2 || got[0].Attrs[probe.AttrLogs] != "kube-system_calico-kube-controllers-x_u" ||
		got[1].Name != "calico-typha" {
		t.Errorf("%v", got)
	}
}
