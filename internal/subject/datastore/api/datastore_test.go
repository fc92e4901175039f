package api

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

func TestDatastoreReady(t *testing.T) {
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	clustertest.WantFirst(t, ask(t, s, "datastore-ready"), probe.Skip, "no ClusterInformation")
	s.Info.Value.Spec = map[string]any{"datastoreReady": true}
	clustertest.WantFirst(t, ask(t, s, "datastore-ready"), probe.OK, "true")
	s.Info.Value.Spec = map[string]any{"datastoreReady": false}
	clustertest.WantFirst(t, ask(t, s, "datastore-ready"), probe.Fail, "new pods get no network")
	s.Info.Err = errors.New("no route to host")
	clustertest.WantFirst(t, ask(t, s, "datastore-ready"), probe.Unknown, "no route to host")
}

// TestGroups has both groups: in a migration the old one stays locked on purpose.
func TestGroups(t *testing.T) {
	pod := func(group string) string {
		return fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"calico-node-x","namespace":"kube-system","labels":{"k8s-app":"calico-node"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"calico-node","controller":true,"uid":"1"}]},"spec":{"nodeName":"a","containers":[{"name":"calico-node","env":[{"name":"CALICO_API_GROUP","value":%q}]}]},"status":{"phase":"Running","containerStatuses":[{"name":"calico-node","ready":true,"state":{"running":{}}}]}}]}`, group)
	}
	info := `{"kind":"List","items":[{"metadata":{"name":"default"},"spec":{"datastoreReady":%v}}]}`
	objects := map[string]string{
		"/api/v1/nodes": `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}]}`,
		"/apis/crd.projectcalico.org/v1/clusterinformations":            fmt.Sprintf(info, false),
		"/apis/projectcalico.org/v3/clusterinformations":                fmt.Sprintf(info, true),
		"/apis/migration.projectcalico.org/v1beta1/datastoremigrations": `{"kind":"List","items":[{"metadata":{"name":"v1-to-v3"},"status":{"phase":"Converged"}}]}`,
	}
	for group, want := range map[string]struct {
		status probe.Status
		saw    string
		group  string
	}{
		"":                     {probe.Warn, "while DatastoreMigration v1-to-v3 Converged exists", "crd.projectcalico.org"},
		"projectcalico.org/v3": {probe.OK, "true", "projectcalico.org"},
	} {
		objects["/api/v1/pods"] = pod(group)
		s, err := clustertest.ServerOf(t, objects, nil).Read(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		got := ask(t, s, facts.CheckDatastoreReady)
		clustertest.WantFirst(t, got, want.status, want.saw)
		if got[0].Facts[facts.Group] != want.group {
			t.Errorf("%q: %v", group, got)
		}
	}
	delete(objects, "/apis/migration.projectcalico.org/v1beta1/datastoremigrations")
	s, err := clustertest.ServerOf(t, objects, map[string]http.HandlerFunc{}).Read(t.Context(), "a")
	if err != nil || s.Info.Value.Migration != "" {
		t.Errorf("%q, %v", s.Info.Value.Migration, err)
	}
}
