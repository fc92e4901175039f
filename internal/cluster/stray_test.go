package cluster

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestReadStray has EndpointSlices that Kubernetes does not keep, of Services with and without a selector.
func TestReadStray(t *testing.T) {
	t.Parallel()
	const slices = `{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","items":[
{"metadata":{"name":"mirror","namespace":"shop","labels":{"kubernetes.io/service-name":"web"}},"addressType":"IPv4","endpoints":[
 {"addresses":["10.244.99.7"],"conditions":{"ready":true}},{"addresses":["10.244.1.2"]},{"addresses":["10.244.99.8"],"conditions":{"ready":false}}]},
{"metadata":{"name":"outside","namespace":"shop","labels":{"kubernetes.io/service-name":"database"}},"addressType":"IPv4","endpoints":[{"addresses":["192.0.2.1"]}]},
{"metadata":{"name":"nobody","namespace":"shop","labels":{"kubernetes.io/service-name":"gone"}},"addressType":"IPv4","endpoints":[{"addresses":["192.0.2.2"]}]}]}`
	asked := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/endpointslices"):
			asked = r.URL.Query().Get("labelSelector")
			_, _ = w.Write([]byte(slices))
		case r.URL.Query().Get("fieldSelector") == "status.podIP=10.244.1.2":
			_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"web-1","namespace":"shop"}}]}`))
		default:
			_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","items":[]}`))
		}
	}))
	defer srv.Close()
	c, err := NewClient(&rest.Config{Host: srv.URL}, "")
	if err != nil {
		t.Fatal(err)
	}
	service := func(name string, selector map[string]string) corev1.Service {
		return corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec: corev1.ServiceSpec{Selector: selector}}
	}
	got, err := c.readStray(t.Context(), []corev1.Service{service("web", map[string]string{"app": "web"}),
		service("database", nil)})
	if err != nil || len(got) != 1 || got[0].Service != "shop/web" || got[0].Slice != "shop/mirror" ||
		len(got[0].Addresses) != 1 || got[0].Addresses[0] != "10.244.99.7" {
		t.Errorf("%+v, %v", got, err)
	}
	if !strings.Contains(asked, "endpointslice-controller.k8s.io") {
		t.Errorf("asked for %q", asked)
	}
}
