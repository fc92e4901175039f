package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestStartupUnread expects unread events and pods not to count as absent: the result is a skip without the right to
// read them, and unknown if the API fails.
func TestStartupUnread(t *testing.T) {
	t.Parallel()
	const noRight = "no right to list events"
	for name, c := range map[string]struct {
		code   int
		reason string
		status probe.Status
		saw    string // about the events
	}{
		"forbidden": {http.StatusForbidden, "Forbidden", probe.Skip, noRight},
		"failing":   {http.StatusInternalServerError, "InternalError", probe.Unknown, "reading the kubelet's events"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				kind := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.code)
				fmt.Fprintf(w, `{"kind":"Status","status":"Failure","reason":%q,"code":%d,"message":"%s is forbidden: `+
					`User \"jane\" cannot list resource \"%s\" in API group \"\" in the namespace \"kube-system\""}`,
					c.reason, c.code, kind, kind)
			}))
			t.Cleanup(srv.Close)
			client, err := cluster.NewClient(&rest.Config{Host: srv.URL}, "")
			if err != nil {
				t.Fatal(err)
			}
			restarted := clustertest.Calico(3)
			restarted.Status.ContainerStatuses[0].Ready = false
			cordoned := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
			cordoned.Calico.Value, cordoned.Node.Spec.Unschedulable = restarted, true
			cordoned.Startup.Value, cordoned.Startup.Err = client.ReadStart(t.Context(), cordoned)
			wantResult(t, ask(t, cordoned, facts.CheckCalicoPod), "kubelet's events", c.status, c.saw)
			wantResult(t, ask(t, cordoned, facts.CheckNodeTaints), "waiting pods", c.status, "pods")

			absent := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
			var set cluster.CalicoSet
			set.Name, set.Namespace = "calico-node", "kube-system"
			absent.Sets.Value = []cluster.CalicoSet{set}
			absent.Startup.Value, absent.Startup.Err = client.ReadStart(t.Context(), absent)
			got := ask(t, absent, facts.CheckCalicoPod)[0]
			if !strings.Contains(got.Saw, "reason unknown: listing pods without a node") || got.Facts[facts.Skips] != nil {
				t.Errorf("%+v", got)
			}
		})
	}
}

// wantResult wants one result about a target, with this status and text.
func wantResult(t *testing.T, got []probe.Result, target string, status probe.Status, saw string) {
	t.Helper()
	for _, r := range got {
		if r.Target == target {
			if r.Status != status || !strings.Contains(r.Saw, saw) {
				t.Errorf("%s: %s %q, want %s %q", target, r.Status, r.Saw, status, saw)
			}
			return
		}
	}
	t.Errorf("no result about %s: %+v", target, got)
}
