package clustertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/internal/cluster"
)

// ServerOf serves a List or another object at some paths, and handlers at others. At all other paths it answers as an
// API server without that API group does.
func ServerOf(t *testing.T, objects map[string]string, others map[string]http.HandlerFunc) *cluster.Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := others[r.URL.Path]; h != nil {
			h(w, r)
			return
		}
		text, ok := objects[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, text)
	}))
	t.Cleanup(srv.Close)
	c, err := cluster.NewClient(&rest.Config{Host: srv.URL}, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}
