package cluster

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestReadRefused requires the workloads whose last attempt to create a pod failed, and no others.
func TestReadRefused(t *testing.T) {
	t.Parallel()
	event := func(reason, by, kind, name, says string, age time.Duration) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"reason":%q,"message":%q,"source":{"component":%q},`+
			`"involvedObject":{"kind":%q,"namespace":"shop","name":%q,"uid":%q},"lastTimestamp":%q}`, name, reason, says, by,
			kind, name, name, time.Now().Add(-age).UTC().Format(time.RFC3339))
	}
	const quota = `Error creating: pods "web-1-x" is forbidden: exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2`
	ofSet := func(name string) string {
		return event(eventNotCreated, "replicaset-controller", "ReplicaSet", name, quota, time.Minute)
	}
	ofAgent := func() string {
		return event(eventNotCreated, SetController, "DaemonSet", "agent", "Error creating: no", time.Minute)
	}
	const failing = `"conditions":[{"type":"ReplicaFailure","status":"True"}]`
	deployment := func(name, replicas, status string) string {
		return `{"metadata":{"namespace":"shop","name":"` + name + `"},"spec":{"replicas":` + replicas +
			`},"status":{` + status + `}}`
	}
	set := func(wanted, has int) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"agent"},"status":{"desiredNumberScheduled":%d,"currentNumberScheduled":%d}}`,
			wanted, has)
	}
	for name, c := range map[string]struct {
		failed, created, deployments, sets string
		want                               string // KIND NAME LACKS: TEXT
	}{
		"a Deployment": {failed: ofSet("web-6d4b"),
			deployments: deployment("web", "3", `"replicas":2,`+failing),
			want:        "Deployment web 1: exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2"},
		"near: it has its pods": {failed: ofSet("web-6d4b"),
			deployments: deployment("web", "3", `"replicas":3`)},
		"near: scaled to none": {failed: ofSet("web-6d4b"),
			deployments: deployment("web", "0", failing)},
		"of another's name": {failed: ofSet("web-api-6d4b"),
			deployments: deployment("web", "3", `"replicas":3`),
			want:        "ReplicaSet web-api-6d4b 0: exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2"},
		"a StatefulSet": {failed: event(eventNotCreated, "statefulset-controller", "StatefulSet", "db",
			`create Pod db-0 in StatefulSet db failed error: pods "db-0" is forbidden: failed quota: team: must specify limits.cpu`, time.Minute),
			want: "StatefulSet db 0: failed quota: team: must specify limits.cpu"},
		"near: created since": {failed: event(eventNotCreated, "statefulset-controller", "StatefulSet", "db",
			quota, time.Minute),
			created: event(eventCreated, "statefulset-controller", "StatefulSet", "db", "create Pod db-0", time.Second)},
		"a DaemonSet":           {failed: ofAgent(), sets: set(2, 1), want: "DaemonSet agent 1: no"},
		"near: a DaemonSet has": {failed: ofAgent(), sets: set(2, 2)},
		"near: long ago":        {failed: event(eventNotCreated, "job-controller", "Job", "once", quota, time.Hour)},
		"near: of a tenant":     {failed: event(eventNotCreated, "tenant", "Job", "once", quota, time.Minute)},
		"near: none":            {},
	} {
		list := func(kind, items string) string { return `{"kind":"` + kind + `List","items":[` + items + `]}` }
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch path, query := r.URL.Path, r.URL.RawQuery; {
			case path == "/api/v1/events" && strings.Contains(query, eventNotCreated):
				fmt.Fprint(w, list("Event", c.failed))
			case path == "/api/v1/namespaces/shop/events" && strings.Contains(query, eventCreated):
				fmt.Fprint(w, list("Event", c.created))
			case strings.HasSuffix(path, "/shop/deployments"):
				fmt.Fprint(w, list("Deployment", c.deployments))
			case strings.HasSuffix(path, "/shop/daemonsets"):
				fmt.Fprint(w, list("DaemonSet", c.sets))
			default:
				http.NotFound(w, r)
			}
		}))
		client, err := NewClient(&rest.Config{Host: server.URL}, "")
		if err != nil {
			t.Fatal(err)
		}
		got, err := client.ReadRefused(t.Context())
		server.Close()
		var said []string
		for _, r := range got {
			said = append(said, fmt.Sprintf("%s %s %d: %s", r.Kind, r.Name, r.Lacks, r.Said.Text))
		}
		if text := strings.Join(said, "; "); err != nil || text != c.want {
			t.Errorf("%s: %q, want %q; %v", name, text, c.want, err)
		}
	}
}
