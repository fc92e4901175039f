package cluster

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/probe"
)

// TestDNSEmpty requires a report if cluster DNS has no ready endpoint, with the replicas of the Deployment behind it,
// and of no other Deployment.
func TestDNSEmpty(t *testing.T) {
	t.Parallel()
	const deployment = `{"metadata":{"namespace":"kube-system","name":%q},"spec":{"replicas":%d,"template":{"metadata":{"labels":{"k8s-app":%q}}}}}`
	scaled := fmt.Sprintf(deployment, "other", 3, "other") + "," + fmt.Sprintf(deployment, "coredns", 0, "kube-dns")
	const ready, unready = `{"addresses":["10.244.0.5"]}`, `{"addresses":["10.244.0.5"],"conditions":{"ready":false}}`
	const none = "Service kube-system/kube-dns has no ready endpoint"
	for name, c := range map[string]struct{ endpoints, deployments, want string }{
		"scaled to none":  {"", scaled, none + ": Deployment kube-system/coredns wants 0 replicas, and 0 are ready"},
		"none is ready":   {unready, fmt.Sprintf(deployment, "coredns", 2, "kube-dns"), none + ": Deployment kube-system/coredns wants 2 replicas, and 0 are ready"},
		"there is no pod": {"", "", none + ": no pod of the namespace has the labels of its selector, k8s-app=kube-dns"},
		"well":            {ready, scaled, ""},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case strings.HasSuffix(r.URL.Path, "/endpointslices"):
				fmt.Fprintf(w, `{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","items":[{"ports":[{"port":53}],"endpoints":[%s]}]}`, c.endpoints)
			case strings.HasSuffix(r.URL.Path, "/deployments"):
				fmt.Fprintf(w, `{"kind":"DeploymentList","apiVersion":"apps/v1","items":[%s]}`, c.deployments)
			default:
				fmt.Fprint(w, `{"kind":"ServiceList","apiVersion":"v1","items":[{"metadata":{"name":"kube-dns","namespace":"kube-system"},"spec":{"selector":{"k8s-app":"kube-dns"},"clusterIPs":["10.96.0.10"],"ports":[{"port":53}]}}]}`)
			}
		}))
		defer srv.Close()
		client, err := NewClient(&rest.Config{Host: srv.URL}, "")
		if err != nil {
			t.Fatal(err)
		}
		dns, err := client.ReadDNS(t.Context())
		got := dns.Targets
		if err != nil || len(got) == 0 || got[0].Name != "service" || got[0].Attrs[probe.AttrEmpty] != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
