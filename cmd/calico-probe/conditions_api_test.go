package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/report"
)

// pendingKey is the annotation with the result of a pending round.
const pendingKey = "calico-probe.io/pending-condition"

// healthAPI is an API with many nodes that stores writes. Nodes with a silent kubelet are bad, all others healthy.
type healthAPI struct {
	kubeconfig string

	mu      sync.Mutex
	nodes   int
	silent  map[string]bool
	refused string // the node that takes no condition
	failing string // the list, as asked has it, that is answered by 503
	asked   map[string]bool
	patches int
	posts   int // create requests, always 0
	has     map[string]corev1.NodeCondition
	pending map[string]string
}

func newHealthAPI(t *testing.T, nodes int) *healthAPI {
	t.Helper()
	a := &healthAPI{nodes: nodes, silent: map[string]bool{}, asked: map[string]bool{},
		has: map[string]corev1.NodeCondition{}, pending: map[string]string{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch r.Method {
		case http.MethodPatch:
			a.patch(t, w, r)
			return
		case http.MethodPost:
			a.posts++
			w.WriteHeader(http.StatusForbidden)
			return
		}
		asks := r.URL.Path + " " + r.URL.Query().Get("labelSelector")
		a.asked[asks] = true
		if asks == a.failing {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(a.list(w, r)) // on a busy machine the client may have given up
	}))
	t.Cleanup(server.Close)
	a.kubeconfig = kubeconfigTo(t, server.URL)
	return a
}

// list answers read requests.
func (a *healthAPI) list(w http.ResponseWriter, r *http.Request) any {
	parts := strings.Split(r.URL.Path, "/")
	resource := parts[len(parts)-1]
	if strings.Contains(r.URL.Path, "projectcalico.org") || strings.Contains(r.URL.Path, "policy.networking") ||
		!strings.HasSuffix(resource, "s") && resource != "endpointslices" {
		w.WriteHeader(http.StatusNotFound)
		return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	}
	nodes := corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}}
	leases := coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{Kind: "LeaseList", APIVersion: "coordination.k8s.io/v1"}}
	pods := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	for i := range a.nodes {
		node, lease, pod := a.node(i)
		nodes.Items, leases.Items = append(nodes.Items, node), append(leases.Items, lease)
		pods.Items = append(pods.Items, pod)
	}
	switch {
	case resource == "nodes":
		return nodes
	case resource == "leases":
		return leases
	case resource == "pods" && strings.Contains(r.URL.Query().Get("labelSelector"), "calico-node"):
		return pods
	}
	return map[string]any{"kind": "List", "apiVersion": "v1", "items": []any{}}
}

// node returns one node as the API has it.
func (a *healthAPI) node(i int) (corev1.Node, coordinationv1.Lease, corev1.Pod) {
	name, hour := nodeNumber(i), metav1.NewTime(time.Now().Add(-time.Hour))
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: hour,
		Annotations: map[string]string{"projectcalico.org/IPv4Address": fmt.Sprintf("10.0.0.%d/24", i+1)},
		Labels:      map[string]string{corev1.LabelOSStable: "linux"}}}
	if p := a.pending[name]; p != "" {
		n.Annotations[pendingKey] = p
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.0.%d", i+1)}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastTransitionTime: hour}}
	heard := time.Now().Add(-3 * time.Second)
	if a.silent[name] {
		heard = time.Now().Add(-10 * time.Minute)
		n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
	}
	if c, is := a.has[name]; is {
		n.Status.Conditions = append(n.Status.Conditions, c)
	}
	lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: heard}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-node-" + name,
		CreationTimestamp: hour}}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "calico-node",
		Controller: new(true)}}
	pod.Spec.NodeName = name
	pod.Spec.Containers = []corev1.Container{{Name: "calico-node", Image: "quay.io/calico/node:v3.32.1"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "calico-node", Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: hour}}}}
	return n, lease, pod
}

// nodeNumber returns the name of a node.
func nodeNumber(i int) string { return fmt.Sprintf("node-%03d", i) }

// patch applies a strategic merge patch to a node.
func (a *healthAPI) patch(t *testing.T, w http.ResponseWriter, r *http.Request) {
	name := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/nodes/"), "/status")
	if name == a.refused {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	var patch struct {
		Metadata struct{ Annotations map[string]*string }
		Status   struct{ Conditions []corev1.NodeCondition }
	}
	if err := json.NewDecoder(r.Body).Decode(&patch); err != nil || len(patch.Status.Conditions) > 1 {
		t.Errorf("%s: %v, %+v", r.URL, err, patch)
		return
	}
	a.patches++
	for key, value := range patch.Metadata.Annotations {
		if key != pendingKey {
			t.Errorf("%s is annotated with %s", name, key)
		}
		if delete(a.pending, name); value != nil {
			a.pending[name] = *value
		}
	}
	for _, c := range patch.Status.Conditions {
		a.has[name] = c
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Node", "apiVersion": "v1",
		"metadata": map[string]any{"name": name}})
}

// conditions runs the verb, five minutes after the last call.
func (a *healthAPI) conditions(t *testing.T, args ...string) (exit int, out, errs string) {
	t.Helper()
	a.mu.Lock()
	for name, text := range a.pending {
		status, at, _ := strings.Cut(text, " since ")
		since, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Errorf("pending %q: %v", text, err)
		}
		a.pending[name] = status + " since " + since.Add(-5*time.Minute).Format(time.RFC3339)
	}
	a.mu.Unlock()
	return call(t, append([]string{"conditions", "--kubeconfig", a.kubeconfig}, args...)...)
}

// round runs the verb until the API answers in time: on a busy machine, a list may take longer than the client waits.
func (a *healthAPI) round(t *testing.T) (exit int, errs string) {
	t.Helper()
	for range 5 {
		if exit, _, errs = a.conditions(t); exit != report.ExitTool {
			break
		}
	}
	return exit, errs
}

// locked reads or changes the state between two calls. The handler of an abandoned call may still run.
func (a *healthAPI) locked(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// conditionOf returns the condition of a node.
func (a *healthAPI) conditionOf(name string) (c corev1.NodeCondition) {
	a.locked(func() { c = a.has[name] })
	return c
}

// counts returns the number of patches and of created objects.
func (a *healthAPI) counts() (patches, posts int) {
	a.locked(func() { patches, posts = a.patches, a.posts })
	return patches, posts
}

// breaks makes the kubelets of this many nodes silent, and all others report.
func (a *healthAPI) breaks(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.silent)
	for i := range min(n, a.nodes) {
		a.silent[nodeNumber(i)] = true
	}
}

// status returns the status of a node's condition, "" = none.
func (a *healthAPI) status(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return string(a.has[name].Status)
}
