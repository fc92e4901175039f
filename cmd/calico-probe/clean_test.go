package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestCleanFlags rejects invalid flags in one line, before any request.
func TestCleanFlags(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"clean --all":                        "stdin is not a terminal to confirm on: add --yes, or choose one run with --run ID",
		"clean --run 7f3a09c1 --all":         "--run and --all",
		"clean --run 7f3a09c1 --all --yes":   "--run and --all",
		"clean --run 7f3a09c":                "eight lower-case hex digits",
		"clean --run calico-probe.io/run!=x": "eight lower-case hex digits",
		"clean --yes":                        "--yes only applies to --all",
		"clean all":                          "all",
	} {
		streams, _, out, errs := genericiooptions.NewTestIOStreams()
		if got := Run(t.Context(), streams, strings.Fields(args)); got != report.ExitUsage {
			t.Errorf("%s: exit %d", args, got)
		}
		if text := errs.String(); !strings.Contains(text, says) || strings.Count(text, "\n") != 1 || out.Len() > 0 {
			t.Errorf("%s: %q %q", args, text, out)
		}
	}
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	var out bytes.Buffer
	streams.Out = &out
	if got := Run(t.Context(), streams, []string{"clean", "--help"}); got != 0 ||
		!strings.Contains(out.String(), "--run") {
		t.Errorf("exit %d\n%s", got, &out)
	}
}

// apiWith returns a kubeconfig for an API that returns these JSON objects in every list. It has every namespace except
// nosuchns.
func apiWith(t *testing.T, date string, pods, jobs []any) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = []string{date}
		w.Header().Set("Content-Type", "application/json")
		kind, version, items := "PodList", "v1", pods
		labelled := strings.Contains(r.URL.RawQuery, "calico-probe.io")
		switch {
		case r.Method == http.MethodDelete:
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
			return
		case strings.HasSuffix(r.URL.Path, "/namespaces/nosuchns"):
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
			return
		case strings.Contains(r.URL.Path, "/namespaces/") && !strings.HasSuffix(r.URL.Path, "s"):
			_, _ = w.Write([]byte(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"x"}}`))
			return
		case strings.Contains(r.URL.Path, "/batch/"):
			kind, version, items = "JobList", "batch/v1", jobs
		}
		var chosen []any
		for _, item := range items {
			text, err := json.Marshal(item)
			if err != nil {
				t.Error(err)
			}
			if labelled == strings.Contains(string(text), "calico-probe.io/run") {
				chosen = append(chosen, item)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": kind, "apiVersion": version,
			"metadata": map[string]any{}, "items": chosen})
	}))
	t.Cleanup(server.Close)
	return kubeconfigTo(t, server.URL)
}

// kubeconfigTo returns the path of a kubeconfig for a server.
func kubeconfigTo(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],
		"clusters":[{"name":"x","cluster":{"server":%q}}],"users":[{"name":"x","user":{}}]}`, server)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// cleaned returns the output and the result of clean with this kubeconfig.
func cleaned(t *testing.T, kubeconfig string, args ...string) (code int, out, errs string) {
	t.Helper()
	streams, _, o, e := genericiooptions.NewTestIOStreams()
	code = Run(t.Context(), streams, append([]string{"clean", "--kubeconfig", kubeconfig}, args...))
	return code, o.String(), e.String()
}

// TestCleanStillRunning requires an ephemeral container that outlives its client to be reported, and a new one to be
// left alone.
func TestCleanStillRunning(t *testing.T) {
	t.Parallel()
	pod := func(started string) []any {
		return []any{map[string]any{
			"metadata": map[string]any{"namespace": "kube-system", "name": "calico-node-x", "ownerReferences": []any{
				map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "calico-node", "uid": "1", "controller": true},
			}},
			"spec": map[string]any{"nodeName": "node-a", "ephemeralContainers": []any{map[string]any{
				"name": "calico-probe-7f3a09c1", "image": "workload:1", "securityContext": map[string]any{"privileged": true},
			}}},
			"status": map[string]any{"ephemeralContainerStatuses": []any{map[string]any{
				"name": "calico-probe-7f3a09c1", "state": map[string]any{"running": map[string]any{"startedAt": started}},
			}}},
		}}
	}
	const now = "Sat, 03 Feb 2001 04:16:00 GMT"
	kubeconfig := apiWith(t, now, pod("2001-02-03T04:05:00Z"), nil)
	code, out, errs := cleaned(t, kubeconfig)
	if code != report.ExitTool || errs != "" || out != "STILL RUNNING after 11m, image workload:1, privileged: "+
		"container kube-system/calico-node-x/calico-probe-7f3a09c1 on node node-a; if run 7f3a09c1 is no longer active, "+
		"replace the pod to stop it: 'kubectl -n kube-system delete pod calico-node-x' (restarts calico-node on node-a)\n" {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	for _, started := range []string{"2001-02-03T04:15:45Z", "2001-02-03T04:20:00Z"} {
		kubeconfig = apiWith(t, now, pod(started), nil)
		if code, out, errs := cleaned(t, kubeconfig); code != 0 || errs != "" ||
			!strings.HasPrefix(out, "cannot be removed: ") {
			t.Errorf("%s: exit %d\n%s%s", started, code, out, errs)
		}
	}
}

// TestCleanNothing requires a message that names a run without leftovers, and the namespace of -n.
func TestCleanNothing(t *testing.T) {
	t.Parallel()
	kubeconfig := apiWith(t, "Sat, 03 Feb 2001 04:16:00 GMT", nil, nil)
	for args, want := range map[string]string{
		"":                          "nothing to remove\n",
		"--run c3e9f15e":            "nothing to remove for run c3e9f15e\n",
		"--run c3e9f15e -n default": "nothing to remove for run c3e9f15e in namespace default; -n limits the search to this namespace\n",
	} {
		if code, out, errs := cleaned(t, kubeconfig, strings.Fields(args)...); code != 0 || out != want || errs != "" {
			t.Errorf("%s: exit %d, %s%s", args, code, out, errs)
		}
	}
}
