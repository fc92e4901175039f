package cluster

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
)

// fleet is the API's data about many nodes, which are healthy until a test changes them.
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
		Name: CalicoContainer, Ready: true,
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
