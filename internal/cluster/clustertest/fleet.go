package clustertest

import (
	"encoding/json"
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

	"github.com/calico-probe/calico-probe/internal/cluster"
)

// Fleet is the API's data about many nodes. The nodes are healthy until a test changes them.
type Fleet struct {
	Nodes  []corev1.Node
	Leases []coordinationv1.Lease
	Pods   []corev1.Pod
	Wrap   func(http.RoundTripper) http.RoundTripper // the transport of its clients
}

// Add creates a node with its lease and calico-node pod, lets spoil change them, and adds them to the fleet.
func (f *Fleet) Add(name string, spoil func(*corev1.Node, *coordinationv1.Lease, *corev1.Pod)) {
	hour := metav1.NewTime(time.Now().Add(-time.Hour))
	n := Node(name, "10.0.0.1", "")
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
		Name: cluster.CalicoContainer, Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: hour}},
	}}
	if spoil != nil {
		spoil(&n, &lease, &pod)
	}
	f.Nodes = append(f.Nodes, n)
	if lease.Name != "" {
		f.Leases = append(f.Leases, lease)
	}
	if pod.Name != "" {
		f.Pods = append(f.Pods, pod)
	}
}

// Client returns a client for a server that serves the fleet and refuses the given paths.
func (f *Fleet) Client(t *testing.T, refused ...string) *cluster.Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var list any
		switch {
		case slices.ContainsFunc(refused, func(s string) bool { return strings.HasSuffix(r.URL.Path, s) }):
			w.WriteHeader(http.StatusForbidden)
			return
		case strings.HasSuffix(r.URL.Path, "/nodes"):
			list = corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Items: f.Nodes}
		case strings.HasSuffix(r.URL.Path, "/leases"):
			list = coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{Kind: "LeaseList", APIVersion: "coordination.k8s.io/v1"},
				Items: f.Leases}
		case strings.HasSuffix(r.URL.Path, "/pods"):
			_, node, named := strings.Cut(r.URL.Query().Get("fieldSelector"), "spec.nodeName=")
			pods := slices.DeleteFunc(slices.Clone(f.Pods), func(p corev1.Pod) bool { return named && p.Spec.NodeName != node })
			list = corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: pods}
		case strings.Contains(r.URL.Path, "/leases/"):
			i := slices.IndexFunc(f.Leases, func(l coordinationv1.Lease) bool { return l.Name == path.Base(r.URL.Path) })
			if i < 0 {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			list = f.Leases[i]
		}
		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	c, err := cluster.NewClient(&rest.Config{Host: srv.URL, WrapTransport: f.Wrap}, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// claimant returns a DaemonSet pod with calico-node's label. name is NAMESPACE/NAME.
func claimant(name, set string, made time.Duration) corev1.Pod {
	namespace, pod, _ := strings.Cut(name, "/")
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod, CreationTimestamp: Ago(made)}}
	p.Labels = map[string]string{"k8s-app": "calico-node"}
	p.Spec.NodeName = "a"
	if set != "" {
		p.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "DaemonSet", Name: set, Controller: new(true)},
		}
	}
	return p
}

// Tenants returns a tenant's pod that poses as calico-node: healthy, and newer than all other pods.
func Tenants(node string, at time.Time) *corev1.Pod {
	p := claimant("tenant/calico-node", "", 0)
	p.CreationTimestamp, p.Spec.NodeName = metav1.NewTime(at), node
	p.Spec.Containers = []corev1.Container{{Name: cluster.CalicoContainer, Env: []corev1.EnvVar{
		{Name: "ETCD_ENDPOINTS", Value: "https://tenant.example:2379"},
		{Name: "FELIX_TYPHAK8SSERVICENAME", Value: "tenants"}, {Name: "FELIX_TYPHAK8SNAMESPACE", Value: "tenant"},
	}}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: cluster.CalicoContainer, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	return &p
}
