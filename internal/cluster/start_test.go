package cluster

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// startWaits is a calico-node pod that is made for a node and not bound to it.
func startWaits(says, cpu string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-node-x",
		CreationTimestamp: ago(time.Minute),
		OwnerReferences:   []metav1.OwnerReference{{Kind: "DaemonSet", Name: "calico-node", Controller: new(true)}}}}
	if says != "" {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: "Unschedulable", Message: says}}
	}
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	return p
}

// TestStartReadsWebhooks requires the webhooks that fail closed and have a Service without endpoints, from an API
// server.
func TestStartReadsWebhooks(t *testing.T) {
	t.Parallel()
	hook := func(policy, service string) string {
		return `{"name":"` + service + `.example.com","failurePolicy":"` + policy + `","clientConfig":{"service":{"namespace":"w","name":"` + service + `"}},"rules":[]}`
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/validatingwebhookconfigurations"):
			_, _ = w.Write([]byte(`{"items":[{"metadata":{"name":"v"},"webhooks":[` + hook("Fail",
				"gone") + `,` + hook("Ignore", "gone2") + `,` + hook("Fail", "well") + `]}]}`))
		case strings.HasSuffix(r.URL.Path, "/mutatingwebhookconfigurations"):
			_, _ = w.Write([]byte(`{"items":[{"metadata":{"name":"m"},"webhooks":[` + hook("Fail", "empty") + `]}]}`))
		case strings.HasSuffix(r.URL.Path, "/endpointslices") && strings.Contains(r.URL.RawQuery, "well"):
			_, _ = w.Write([]byte(`{"items":[{"endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":true}}]}]}`))
		case strings.HasSuffix(r.URL.Path, "/endpointslices"):
			_, _ = w.Write([]byte(`{"items":[]}`))
		case strings.HasSuffix(r.URL.Path, "/services/empty"):
			_, _ = w.Write([]byte(`{"metadata":{"name":"empty"}}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
		}
	}))
	defer server.Close()
	c, err := NewClient(&rest.Config{Host: server.URL}, "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.ReadWebhooks(t.Context())
	if err != nil || got.Of != 3 || len(got.Dead) != 2 || got.Dead[0].Why != "there is no Service w/gone" ||
		got.Dead[1].Why != "Service w/empty has no ready endpoint" {
		t.Errorf("%+v", got)
	}
}
