package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/calico-probe/calico-probe/report"
)

// writable is an API of two nodes, of which both are bad, that takes conditions but for that of the
// refused node; and what was written of each.
func writable(t *testing.T, refused string) (kubeconfig string, written func() map[string]string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", fleetAPI(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	reads := httputil.NewSingleHostReverseProxy(at)
	var mu sync.Mutex
	got := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, isStatus := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/nodes/"), "/status")
		if r.Method != http.MethodPatch || !isStatus {
			reads.ServeHTTP(w, r)
			return
		}
		if name == refused {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		var patch struct {
			Status struct {
				Conditions []struct{ Type, Status, Reason string }
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil || len(patch.Status.Conditions) != 1 {
			t.Errorf("%s: %v, %+v", r.URL, err, patch)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		c := patch.Status.Conditions[0]
		got[name] = c.Type + "=" + c.Status
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Node", "apiVersion": "v1",
			"metadata": map[string]any{"name": name}})
	}))
	t.Cleanup(server.Close)
	return kubeconfigTo(t, server.URL), func() map[string]string {
		mu.Lock()
		defer mu.Unlock()
		return got
	}
}

// TestConditionsWritten writes a condition of each node and ends well whatever it says; where one cannot be written the
// others are; where too many would turn False none of those is; a dry run says what it would write.
func TestConditionsWritten(t *testing.T) {
	t.Parallel()
	const bad = "CalicoHealthy=False"
	for what, c := range map[string]struct {
		args, refused string
		exit          int
		a, b, says    string
	}{
		"all of two":  {"", "", report.ExitIncomplete, "", "", "2 nodes would turn False together"},
		"one named":   {"--node worker-b", "", report.ExitHealthy, "", bad, "nodes judged: 1, conditions written: 1"},
		"both":        {"--at-most 100%", "", report.ExitHealthy, bad, bad, "nodes judged: 2, conditions written: 2"},
		"one refused": {"--at-most 2", "worker-a", report.ExitTool, "", bad, "the condition of node worker-a"},
		"too many":    {"--at-most 1", "", report.ExitIncomplete, "", "", "not written of worker-a, worker-b"},
		"dry run":     {"--dry-run --at-most 2", "", report.ExitHealthy, "", "", "conditions would be written: 2"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			kubeconfig, written := writable(t, c.refused)
			exit, _, errs := call(t, append([]string{"conditions", "--kubeconfig", kubeconfig}, strings.Fields(c.args)...)...)
			got := written()
			if exit != c.exit || got["worker-a"] != c.a || got["worker-b"] != c.b || !strings.Contains(errs, c.says) {
				t.Errorf("exit %d, %v: %s", exit, got, errs)
			}
		})
	}
}

func TestAtMost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text        string
		nodes, most int
	}{
		{"10%", 1, 1}, {"10%", 2, 1}, {"10%", 3, 2}, {"10%", 4, 3}, {"10%", 30, 3}, {"10%", 5000, 500}, {"0%", 50, 3},
		{"100%", 3, 3}, {"100%", 1, 1}, {"0", 3, 0}, {"7", 3, 7},
	} {
		if most, err := atMost(c.text, c.nodes); err != nil || most != c.most {
			t.Errorf("%s of %d: %d, %v, want %d", c.text, c.nodes, most, err, c.most)
		}
	}
	for _, text := range []string{"", "x", "-1", "101%", "1.5"} {
		if _, err := atMost(text, 10); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
