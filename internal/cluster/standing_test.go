package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/probe"
)

// fleet is what an API says of many nodes: each is well but for what is done to it.
type fleet struct {
	nodes  []corev1.Node
	leases []coordinationv1.Lease
	pods   []corev1.Pod
	wrap   func(http.RoundTripper) http.RoundTripper // the transport of its clients
}

func (f *fleet) add(name string, spoil func(*corev1.Node, *coordinationv1.Lease, *corev1.Pod)) {
	hour := metav1.NewTime(time.Now().Add(-time.Hour))
	n := node(name, "10.0.0.1", "")
	n.Status.Conditions[0].LastTransitionTime = hour
	n.CreationTimestamp = hour
	n.Labels = map[string]string{corev1.LabelOSStable: "linux"}
	lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-3 * time.Second)}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-node-" + name,
		CreationTimestamp: hour}}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "calico-node",
		Controller: new(true)}}
	pod.Spec.NodeName = name
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: calicoContainer, Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: hour}},
	}}
	if spoil != nil {
		spoil(&n, &lease, &pod)
	}
	f.nodes = append(f.nodes, n)
	if lease.Name != "" {
		f.leases = append(f.leases, lease)
	}
	if pod.Name != "" {
		f.pods = append(f.pods, pod)
	}
}

// client asks a server that has the fleet, and nothing under the refused paths.
func (f *fleet) client(t *testing.T, refused ...string) *Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var list any
		switch {
		case slices.ContainsFunc(refused, func(s string) bool { return strings.HasSuffix(r.URL.Path, s) }):
			w.WriteHeader(http.StatusForbidden)
			return
		case strings.HasSuffix(r.URL.Path, "/nodes"):
			list = corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Items: f.nodes}
		case strings.HasSuffix(r.URL.Path, "/leases"):
			list = coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{Kind: "LeaseList", APIVersion: "coordination.k8s.io/v1"},
				Items: f.leases}
		case strings.HasSuffix(r.URL.Path, "/pods"):
			_, node, named := strings.Cut(r.URL.Query().Get("fieldSelector"), "spec.nodeName=")
			pods := slices.DeleteFunc(slices.Clone(f.pods), func(p corev1.Pod) bool { return named && p.Spec.NodeName != node })
			list = corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: pods}
		case strings.Contains(r.URL.Path, "/leases/"):
			i := slices.IndexFunc(f.leases, func(l coordinationv1.Lease) bool { return l.Name == path.Base(r.URL.Path) })
			if i < 0 {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			list = f.leases[i]
		}
		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	c, err := NewClient(&rest.Config{Host: srv.URL, WrapTransport: f.wrap}, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestStandings(t *testing.T) {
	t.Parallel()
	var f fleet
	long := metav1.NewTime(time.Now().Add(-10 * time.Minute))
	f.add("b-well", nil)
	f.add("a-well", nil)
	f.add("cordoned", func(n *corev1.Node, _ *coordinationv1.Lease, _ *corev1.Pod) { n.Spec.Unschedulable = true })
	f.add("windows", func(n *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) {
		n.Labels[corev1.LabelOSStable], p.Name = "windows", ""
	})
	f.add("starting", func(_ *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) {
		p.CreationTimestamp = metav1.NewTime(time.Now().Add(-10 * time.Second))
		p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: calicoContainer,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
	})
	f.add("crashing", func(_ *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) {
		p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: calicoContainer, RestartCount: 7,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}
	})
	f.add("bare", func(_ *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) { p.Name = "" })
	f.add("in-init", func(_ *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "install-cni"}}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "install-cni",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: long}}}}
	})
	f.add("pressed", func(n *corev1.Node, _ *coordinationv1.Lease, _ *corev1.Pod) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure,
			Status: corev1.ConditionTrue, LastTransitionTime: long})
	})
	f.add("silent", func(_ *corev1.Node, l *coordinationv1.Lease, _ *corev1.Pod) {
		l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-90 * time.Second)}
	})
	f.add("claimed-twice", nil)
	twin := f.pods[len(f.pods)-1].DeepCopy()
	twin.Namespace = "calico-system"
	f.pods = append(f.pods, *twin)
	f.add("posed", func(_ *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) {
		p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: calicoContainer,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}
	})
	f.pods = append(f.pods, *tenants("posed", time.Now()))
	f.add("leaseless", func(_ *corev1.Node, l *coordinationv1.Lease, _ *corev1.Pod) { l.Name = "" })
	f.add("unready", func(n *corev1.Node, _ *coordinationv1.Lease, _ *corev1.Pod) {
		n.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse,
			LastTransitionTime: long, Reason: "KubeletNotReady", Message: "container runtime is down"}
	})
	got, gaps, err := f.client(t).Standings(t.Context())
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
		{"silent", probe.Fail, "the lease has run out"},
		{"pressed", probe.Fail, "DiskPressure"},
		{"bare", probe.Fail, "no calico-node pod"},
		{"crashing", probe.Fail, "calico-node: waits: CrashLoopBackOff"},
		{"in-init", probe.Fail, "calico-node: Init:0/1"},
		{"posed", probe.Fail, "calico-node: waits: CrashLoopBackOff"},
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

	// Nobody is called silent, or without Calico, by who may not look.
	got, gaps, err = f.client(t, "/leases", "/pods").Standings(t.Context())
	if err != nil || len(gaps) != 2 || got[0].Node != "unready" || got[1].Node != "pressed" ||
		got[2].Node != "cordoned" || got[3].Status != probe.Unknown {
		t.Errorf("%v, %v, %v", got, gaps, err)
	}
	if _, _, err := f.client(t, "/nodes").Standings(t.Context()); err == nil {
		t.Error("no error without nodes")
	}
}

func TestStandingsOfManyNodes(t *testing.T) {
	t.Parallel()
	var f fleet
	for i := range 1000 {
		f.add(fmt.Sprintf("worker-%04d", i), nil)
	}
	f.nodes[777].Status.Conditions[0].Status = corev1.ConditionFalse
	got, _, err := f.client(t).Standings(t.Context())
	if err != nil || len(got) != 1000 || got[0].Node != "worker-0777" || got[1].Node != "worker-0000" {
		t.Errorf("%d nodes, %v", len(got), err)
	}
}
