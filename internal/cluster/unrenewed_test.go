package cluster

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestUnrenewed requires that a kubelet with an old lease is distinguished from one that renewed it, one that still has
// time, and one without API data.
func TestUnrenewed(t *testing.T) {
	t.Parallel()
	at := func(ago time.Duration) *metav1.MicroTime { return new(metav1.NewMicroTime(now.Add(-ago))) }
	lease := func(renewed *metav1.MicroTime, seconds int32) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: "a"},
			Spec: coordinationv1.LeaseSpec{RenewTime: renewed, LeaseDurationSeconds: &seconds}}
	}
	for name, c := range map[string]struct {
		before, now *coordinationv1.Lease
		want        bool
	}{
		"let it get old":       {lease(at(5*time.Second), 40), lease(at(5*time.Second), 40), true},
		"renews once a minute": {lease(at(5*time.Second), 240), lease(at(5*time.Second), 240), false},
		"renewed":              {lease(at(5*time.Second), 40), lease(at(-2*time.Second), 40), false},
		"has the time to":      {lease(at(-9*time.Second), 40), lease(at(-9*time.Second), 40), false},
		"none now":             {lease(at(5*time.Second), 40), nil, false},
		"none before":          {nil, lease(at(5*time.Second), 40), false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.now == nil {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(c.now); err != nil {
				t.Error(err)
			}
		}))
		client, err := NewClient(&rest.Config{Host: server.URL}, "")
		if err != nil {
			t.Fatal(err)
		}
		s := &Snapshot{}
		s.Now, s.Read, s.Lease.Value = now, time.Now().Add(-20*time.Second), c.before
		got := client.Unrenewed(t.Context(), s)
		if (got != nil) != c.want || got != nil && got.Now.Sub(now) < 20*time.Second {
			t.Errorf("%s: %+v", name, got)
		}
		server.Close()
	}
}
