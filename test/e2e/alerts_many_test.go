//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/alerts"
	reports "github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
)

// TestAlertsMany fires alerts for forty nodes, one of which runs. A real Alertmanager sends each alert separately, and
// serve examines all nodes together. Only the few jobs that start before the other alerts arrive are about single
// nodes.
func TestAlertsMany(t *testing.T) {
	ctx := t.Context()
	k := kube(t)
	const nodes = 40
	for i := range nodes { // in the API alone, and of no system that any DaemonSet is for
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("paper-%d", i),
			Labels: map[string]string{corev1.LabelOSStable: "none", corev1.LabelTopologyZone: "paper"}}}
		if _, err := k.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = k.CoreV1().Nodes().Delete(context.Background(), n.Name, metav1.DeleteOptions{}) })
	}
	dir := t.TempDir()
	s, _ := serve(t, freePort(t), append(withRoutes(t, "workers: 1, many: 3"), "--store", dir)...)
	am := startAlertmanager(t, plainly(t, s.url))
	var list []map[string]any
	for i := range nodes {
		list = append(list, map[string]any{"labels": map[string]string{
			"alertname": "Burst", "node": fmt.Sprintf("paper-%d", i)}})
	}
	list = append(list, map[string]any{"labels": map[string]string{"alertname": "Burst", "node": "node-b"}})
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(am.url+"/api/v2/alerts", "application/json", bytes.NewReader(b))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	var many *storedJob
	eventually(t, 3*time.Minute, func() string {
		m := s.metrics(t)
		jobs, seen := stored(t, dir), 0
		for _, j := range jobs {
			if seen += len(j.Alerts); j.Node == alerts.ManyNodes {
				many = &j
			}
		}
		if many == nil || seen < nodes+1 || m["jobs_queued"]+m["jobs_running"] > 0 {
			return fmt.Sprintf("%d alerts are in %d jobs: %v", seen, len(jobs), m)
		}
		return ""
	})
	if n := len(stored(t, dir)); n > 5 || len(many.Nodes) < nodes-4 || !slices.Contains(
		[]string{alerts.Fault, alerts.Incomplete, alerts.Warnings}, many.Verdict) {
		t.Errorf("%d jobs; that of many: %+v", n, many)
	}
	code, text := s.get(t, "/reports/"+many.ID+".json", alertsToken)
	var f reports.Fleet
	if err := json.Unmarshal([]byte(text), &f); code != http.StatusOK || err != nil || len(f.Nodes) < nodes+2 {
		t.Fatalf("%d, %v: %.500s", code, err, text)
	}
	if !slices.ContainsFunc(f.Groups, func(g probe.Group) bool { return len(g.Nodes) >= nodes }) {
		t.Errorf("groups: %+v", f.Groups)
	}
	if m := s.metrics(t); m["jobs_gathered_total"] == 0 {
		t.Errorf("gathered: %v", m)
	}
	// the nodes have events with the result, and node-b ran a probe
	if slices.Contains(many.Nodes, "node-b") {
		i := slices.IndexFunc(f.Nodes, func(n reports.FleetNode) bool { return n.Node == "node-b" })
		if len(f.Nodes[i].Methods) != 2 {
			t.Errorf("node-b was asked by %v", f.Nodes[i].Methods)
		}
	}
	if shown := events(t, many.Nodes[0]); !strings.Contains(shown, many.ID) {
		t.Errorf("%s has no event: %q", many.Nodes[0], shown)
	}
	nothingLeft(t)
}
