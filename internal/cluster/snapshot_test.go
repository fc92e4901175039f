package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestBeside requires that the cluster is read once for two nodes, and that an omission for one node does not affect
// the other.
func TestBeside(t *testing.T) {
	const pod = `{"metadata":{"name":"calico-node-x","namespace":"kube-system","labels":{"k8s-app":"calico-node"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"calico-node","controller":true,"uid":"1"}]},"spec":{"nodeName":%q,"serviceAccountName":"calico-node","containers":[{"name":"calico-node","image":"calico/node:v3.32.1","env":[{"name":"CALICO_NETWORKING_BACKEND","value":%q}]}]},"status":{"phase":"Running","containerStatuses":[{"name":"calico-node","ready":true,"state":{"running":{}}}]}}`
	const nodes = `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"b","annotations":{"projectcalico.org/IPv4Address":"10.0.0.2/24"}}},{"metadata":{"name":"a","annotations":{"projectcalico.org/IPv4Address":"10.0.0.1/24"}}}]}`
	var lists atomic.Int32
	var reviews sync.Map
	say := func(w http.ResponseWriter, text string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, text)
	}
	c := serverOf(t, nil, map[string]http.HandlerFunc{
		"/api/v1/nodes": func(w http.ResponseWriter, _ *http.Request) {
			lists.Add(1)
			say(w, nodes)
		},
		"/api/v1/pods": func(w http.ResponseWriter, r *http.Request) {
			_, node, _ := strings.Cut(r.URL.Query().Get("fieldSelector"), "spec.nodeName=")
			backend := map[string]string{"a": "none", "b": "bird"}[node]
			say(w, fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","items":[`+pod+`]}`, node, backend))
		},
		"/apis/authorization.k8s.io/v1/subjectaccessreviews": func(w http.ResponseWriter, r *http.Request) {
			ask, err := io.ReadAll(r.Body)
			if _, again := reviews.LoadOrStore(string(ask), true); again || err != nil {
				t.Errorf("asked twice: %q, %v", ask, err)
			}
			say(w, fmt.Sprintf(`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":%t}}`,
				!bytes.Contains(ask, []byte("ippools"))))
		},
	})
	a, err := c.Read(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Beside(t.Context(), a, "b")
	if err != nil {
		t.Fatal(err)
	}
	if lists.Load() != 1 {
		t.Errorf("nodes were listed %d times", lists.Load())
	}
	if a.Node.Name != "a" || a.Backend.Value != "none" || len(a.Node.Annotations)+len(a.Nodes[1].Annotations) > 0 {
		t.Errorf("a, whose backend is none: %s, %+v", a.Backend.Value, a.Nodes)
	}
	if b.Node.Name != "b" || b.Backend.Value != "bird" || len(b.Node.Annotations)*len(b.Nodes[0].Annotations) == 0 {
		t.Errorf("b, whose backend is bird: %s, %+v", b.Backend.Value, b.Nodes)
	}
	lacks := []string{"list ippools"}
	if !slices.Equal(a.Rights.Value.Lacks, lacks) || !slices.Equal(b.Rights.Value.Lacks, lacks) {
		t.Errorf("missing permissions: %+v and %+v", a.Rights, b.Rights)
	}
	if _, err := c.Beside(t.Context(), b, "c"); !errors.As(err, new(*UnknownNodeError)) {
		t.Errorf("a node that is not there: %v", err)
	}
}

// TestNoneReady requires an error if pods should be ready and are not, and no error for an unready node.
func TestNoneReady(t *testing.T) {
	pod := corev1.Pod{Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.244.1.2"}}}}
	well := node("b", "10.88.0.12", "10.88.0.12/24")
	ill := well.DeepCopy()
	for i := range ill.Status.Conditions {
		ill.Status.Conditions[i].Status = corev1.ConditionUnknown
	}
	if err := noneReady(&well, []corev1.Pod{pod}); err == nil {
		t.Error("pods that should be ready are not missed")
	}
	if err := errors.Join(noneReady(&well, nil), noneReady(ill, []corev1.Pod{pod})); err != nil {
		t.Error(err)
	}
}
