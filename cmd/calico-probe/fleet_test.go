package main

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe/must"
)

// fleetAPI returns a kubeconfig for an API with two nodes, of which worker-b is silent. It rejects all verbs except
// get.
func fleetAPI(t *testing.T, refused string) string {
	t.Helper()
	node := func(name, ready string) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"name": name, "creationTimestamp": "2026-01-01T00:00:00Z",
				"labels": map[string]any{"kubernetes.io/os": "linux"}},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready,
				"lastTransitionTime": "2026-01-01T00:00:00Z"}}},
		}
	}
	lease := func(name string, age time.Duration) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": name},
			"spec": map[string]any{"renewTime": time.Now().Add(-age).UTC().Format("2006-01-02T15:04:05.000000Z")}}
	}
	lists := map[string][]any{
		"NodeList":  {node("worker-a", "True"), node("worker-b", "Unknown")},
		"LeaseList": {lease("worker-a", 0), lease("worker-b", time.Hour)},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		parts := strings.Split(r.URL.Path, "/")
		resource := parts[len(parts)-1]
		kind, known := map[string]string{"nodes": "NodeList", "leases": "LeaseList", "pods": "PodList",
			"services": "ServiceList", "deployments": "DeploymentList", "daemonsets": "DaemonSetList",
			"endpointslices": "EndpointSliceList", "networkpolicies": "NetworkPolicyList"}[resource]
		version := strings.Join(parts[2:min(4, len(parts))], "/")
		switch {
		case r.Method != http.MethodGet:
			t.Errorf("%s %s", r.Method, r.URL)
		case resource == refused:
			w.WriteHeader(http.StatusForbidden)
			return
		case !known:
			w.WriteHeader(http.StatusNotFound)
			return
		case parts[1] == "api":
			version = "v1"
		}
		items := lists[kind]
		if items == nil {
			items = []any{}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": kind, "apiVersion": version, "metadata": map[string]any{},
			"items": items})
	}))
	t.Cleanup(server.Close)
	return kubeconfigTo(t, server.URL)
}

// TestFleet runs over two nodes, then reads the saved run, and one node of it.
func TestFleet(t *testing.T) {
	t.Parallel()
	kubeconfig, saved := fleetAPI(t, ""), filepath.Join(t.TempDir(), "fleet.ndjson")
	exit, out, errs := call(t, "run", "--all-nodes", "--via", "api", "--kubeconfig", kubeconfig, "-o", "json",
		"-o", "ndjson="+saved)
	if exit != report.ExitFault || errs != "" {
		t.Fatalf("exit %d, %s", exit, errs)
	}
	if err := validate(compiled(t, "fleet"), out); err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	event := compiled(t, "event")
	for line := range strings.Lines(string(b)) {
		if err := validate(event, line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	same := func(text string) string { _, after, _ := strings.Cut(text, "\n"); return after } // but for the head
	_, first, _ := call(t, "run", "--node", "worker-a", "--node", "node/worker-b", "--via", "api",
		"--kubeconfig", kubeconfig, "-o", "name")
	exit, again, errs := call(t, "analyze", saved, "-o", "name")
	if exit != report.ExitFault || same(first) != same(again) || !strings.Contains(again, "node/worker-b\n") {
		t.Errorf("exit %d, %s\n%s\n%s", exit, errs, first, again)
	}
	exit, one, errs := call(t, "analyze", saved, "--node", "worker-b")
	if exit != report.ExitFault || !strings.Contains(one, "fault on worker-b: ") || strings.Contains(one, "worker-a") {
		t.Errorf("exit %d, %s\n%s", exit, errs, one)
	}
	// a truncated run keeps its beginning
	half := strings.SplitAfter(string(b), "\n")
	for i, line := range half {
		if strings.Contains(line, `"verdict"`) && strings.Contains(line, `"node":"worker-a"`) {
			half = half[:i+1]
			break
		}
	}
	cut := filepath.Join(t.TempDir(), "cut.ndjson")
	must.Do(t, os.WriteFile(cut, []byte(strings.Join(half, "")), 0o600))
	exit, out, errs = call(t, "analyze", cut, "-o", "json")
	var d report.Fleet
	err = json.Unmarshal([]byte(out), &d)
	if err != nil || len(d.Nodes) != 1 || exit == report.ExitHealthy || d.Word == report.WordHealthy {
		t.Errorf("exit %d, %v, %s%s", exit, err, out, errs)
	}
}

// TestResume resumes a run that was interrupted in its second node.
func TestResume(t *testing.T) {
	t.Parallel()
	kubeconfig, dir := fleetAPI(t, ""), t.TempDir()
	whole, cut := filepath.Join(dir, "whole.ndjson"), filepath.Join(dir, "cut.ndjson")
	args := []string{"run", "--all-nodes", "--via", "api", "--kubeconfig", kubeconfig, "-o", "json"}
	_, want, _ := call(t, append(args, "-o", "ndjson="+whole)...)
	b := must.Get(os.ReadFile(whole))(t)
	at := strings.LastIndex(string(b), `"node":"worker-b"`)
	must.Do(t, os.WriteFile(cut, b[:at], 0o600))
	exit, out, errs := call(t, append(args, "--resume", cut)...)
	var first, again report.Fleet
	if err := errors.Join(json.Unmarshal([]byte(want), &first), json.Unmarshal([]byte(out), &again)); err != nil {
		t.Fatalf("exit %d, %v: %s", exit, err, errs)
	}
	if exit != report.ExitFault || len(again.Nodes) != 2 || !maps.Equal(first.Verdicts, again.Verdicts) ||
		len(first.Groups) != len(again.Groups) {
		t.Errorf("exit %d, %s\n%s\n%s", exit, errs, want, out)
	}
	for _, wrong := range [][]string{{"--resume", cut, "-o", "ndjson=" + cut}, {"--resume", "../../docs/example.ndjson"}} {
		if exit, out, errs := call(t, append(args[:len(args)-2], wrong...)...); exit != report.ExitUsage || out != "" {
			t.Errorf("%q: exit %d, %s", wrong, exit, errs)
		}
	}
}

// TestResumeForeign rejects a run that is of another cluster, has other checks, or is too old.
func TestResumeForeign(t *testing.T) {
	t.Parallel()
	kubeconfig, dir := fleetAPI(t, ""), t.TempDir()
	whole := filepath.Join(dir, "whole.ndjson")
	args := []string{"run", "--all-nodes", "--via", "api", "--kubeconfig", kubeconfig}
	call(t, append(args, "-o", "ndjson="+whole)...)
	b := must.Get(os.ReadFile(whole))(t)
	head, rest, _ := strings.Cut(string(b), "\n")
	began, old := regexp.MustCompile(`"time":"[^"]+"`), time.Now().Add(-7*time.Hour).UTC().Format(time.RFC3339)
	for want, spoilt := range map[string]string{
		"saved run checked https://elsewhere": regexp.MustCompile(`"server":"[^"]+"`).ReplaceAllString(head,
			`"server":"https://elsewhere"`),
		"saved run checked no cluster": regexp.MustCompile(`,"cluster":\{[^}]+\}`).ReplaceAllString(head, ""),
		"selected other checks":        strings.Replace(head, `"node-ready"`, `"node-lease"`, 1),
		"h0m0s ago":                    began.ReplaceAllString(head, `"time":"`+old+`"`),
	} {
		file := filepath.Join(dir, "foreign.ndjson")
		if spoilt == head {
			t.Fatalf("%s: nothing is spoilt in %s", want, head)
		}
		must.Do(t, os.WriteFile(file, []byte(spoilt+"\n"+rest), 0o600))
		exit, out, errs := call(t, append(args, "--resume", file)...)
		if exit != report.ExitUsage || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s%s", want, exit, out, errs)
		}
	}
}

// TestRunbookFleet runs a runbook with a fleet step by the API alone, and one whose fleet step is impossible.
func TestRunbookFleet(t *testing.T) {
	t.Parallel()
	kubeconfig, dir := fleetAPI(t, ""), t.TempDir()
	write := func(name, step string) string {
		file := filepath.Join(dir, name+".yaml")
		text := "apiVersion: calico-probe.io/v1alpha1\nkind: Runbook\nmetadata: {name: " + name + "}\nspec:\n  title: all\n" +
			"  steps:\n  - name: all\n    fleet: " + step + "\n  - conclude:\n      verdict: fault\n" +
			"      says: \"${first(steps.all.groups).example} ${steps.all.lacks}\"\n"
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	args := []string{"runbook", "run", "--kubeconfig", kubeconfig, "--node", "worker-a", "--journal",
		filepath.Join(dir, "j")}
	exit, out, errs := call(t, append(args, write("all", "{}"), "-o", "json")...)
	if err := validate(compiled(t, "record"), out); err != nil {
		t.Error(err)
	}
	if exit != report.ExitFault || !strings.Contains(out, `"says": "worker-`) || !strings.Contains(out, `"fleet": {`) {
		t.Errorf("exit %d, %s%s", exit, out, errs)
	}
	args[len(args)-1] = filepath.Join(dir, "k")
	exit, _, errs = call(t, append(args, write("none", "{selector: no=such}"))...)
	if exit != report.ExitUsage || !strings.Contains(errs, "0 of 2 nodes match") {
		t.Errorf("exit %d, %s", exit, errs)
	}
	exit, out, _ = call(t, "runbook", "lint", write("bad", "{checks: [pods-start]}"))
	if exit != report.ExitUsage || !strings.Contains(out, "works for one node at a time") {
		t.Errorf("exit %d, %s", exit, out)
	}
}

// TestFleetUnfinished requires a run without a verdict to leave a file that says so.
func TestFleetUnfinished(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "fleet.txt")
	must.Do(t, os.WriteFile(file, []byte("healthy"), 0o600))
	exit, out, errs := call(t, "run", "--all-nodes", "--via", "api", "--kubeconfig", fleetAPI(t, "nodes"),
		"-o", "markdown="+file)
	b, err := os.ReadFile(file)
	if exit != report.ExitTool || out != "" || errs == "" || err != nil ||
		!strings.Contains(string(b), "**incomplete**") || !strings.Contains(string(b), "did not finish") {
		t.Errorf("exit %d, %s%s, %v:\n%s", exit, out, errs, err, b)
	}
}

func TestFleetUsage(t *testing.T) {
	t.Parallel()
	kubeconfig := fleetAPI(t, "")
	for line, want := range map[string]string{
		"--via ssh --all-nodes":                                    "works for one node only",
		"--via api --node worker-a --node x":                       `no node "x"`,
		"--via api --all-nodes --node worker-a":                    "use one of them",
		"--via api -l a=b --all-nodes":                             "use one of them",
		"--via api -l a=b":                                         "0 of 2 nodes match",
		"--via api --all-nodes --checks pods-start":                "works for one node at a time",
		"--via api --all-nodes --checks nothing-so":                "nothing-so",
		"--via api --all-nodes -o jsonpath={.groupz}":              "groupz",
		"--via api --all-nodes --profile quick --skip api":         "leave no check",
		"--via api --all-nodes --checks node-ready --profile deep": "both select checks",
		"--all-nodes --ssh root@{ip}":                              "only works for a run over one node",
		"--node worker-a --resume ../../docs/example.ndjson":       "over several nodes",
	} {
		exit, out, errs := call(t, append([]string{"run", "--kubeconfig", kubeconfig}, strings.Fields(line)...)...)
		if exit != report.ExitUsage || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s%s", line, exit, out, errs)
		}
	}
	exit, out, errs := call(t, "run", "--kubeconfig", kubeconfig, "--via", "api", "--all-nodes",
		"-o", "jsonpath={.groups[0].nodes}")
	if exit != report.ExitFault || !strings.Contains(out, "worker-b") {
		t.Errorf("exit %d, %s%s", exit, out, errs)
	}
}
