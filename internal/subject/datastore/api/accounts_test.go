package api

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestAccounts queries an API server that has Calico's accounts, lacks one, or forbids reading them.
func TestAccounts(t *testing.T) {
	const folder = "/api/v1/namespaces/kube-system/serviceaccounts/"
	account := func(age time.Duration) string {
		return fmt.Sprintf(`{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"uid":"u-1","creationTimestamp":%q}}`,
			clustertest.Now.Add(-age).UTC().Format(time.RFC3339))
	}
	const old, ok = 48 * time.Hour, probe.OK
	const node, cni, controllers = "calico-node", "calico-cni-plugin", "calico-kube-controllers"
	well := []probe.Status{ok, ok, ok}
	for name, c := range map[string]struct {
		ages map[string]time.Duration
		want []probe.Status // of calico-node, the CNI plugin, the controllers
	}{
		"all well":         {map[string]time.Duration{node: old, cni: old, controllers: old}, well},
		"the plugin's":     {map[string]time.Duration{node: old, controllers: old}, []probe.Status{ok, probe.Warn, ok}},
		"the controllers'": {map[string]time.Duration{node: old, cni: old}, []probe.Status{ok, ok, probe.Warn}},
		"created again": {map[string]time.Duration{node: 10 * time.Minute, cni: old, controllers: old},
			[]probe.Status{probe.Warn, ok, ok}},
		"near: older than the kubelet's token": {map[string]time.Duration{node: 2 * time.Hour, cni: old,
			controllers: old}, well},
		"near: no right": {nil, []probe.Status{probe.Skip, probe.Skip, probe.Skip}},
	} {
		objects, others := map[string]string{}, map[string]http.HandlerFunc{}
		for _, of := range []string{node, cni, controllers} {
			if age, there := c.ages[of]; there {
				objects[folder+of] = account(age)
				continue
			}
			code, reason := http.StatusNotFound, "NotFound"
			if c.ages == nil {
				code, reason = http.StatusForbidden, "Forbidden"
			}
			others[folder+of] = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
			}
		}
		s := clustertest.OfCalicoNode()
		s.Calico.Value.CreationTimestamp = clustertest.Ago(24 * time.Hour)
		s.Controllers.Value = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system"},
			Spec: corev1.PodSpec{ServiceAccountName: controllers}}}
		clustertest.ServerOf(t, objects, others).ReadAccess(t.Context(), s)
		got := ask(t, s, facts.CheckAccounts)
		if len(got) != len(c.want) {
			t.Fatalf("%s: %v", name, got)
		}
		for i, r := range got {
			if r.Status != c.want[i] {
				t.Errorf("%s: %s: %s %s, want %s", name, r.Target, r.Status, r.Saw, c.want[i])
			}
		}
	}
}

// TestNoAccounts checks that the result is skip without a Calico pod.
func TestNoAccounts(t *testing.T) {
	clustertest.WantFirst(t, ask(t, clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", "")), facts.CheckAccounts),
		probe.Skip, "no Calico pod")
}
