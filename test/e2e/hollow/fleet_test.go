//go:build e2e

package hollow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/report"
)

// ran is what a run of the client came to and took.
type ran struct {
	report.Fleet
	exit     int
	took     time.Duration
	memory   int64 // bytes, at most
	requests int64
	report   int // bytes of it
	stderr   string
}

// client runs the client as its users do.
func (c *Cluster) client(t testing.TB, args ...string) ran {
	t.Helper()
	var out, errs bytes.Buffer
	args = append(args, "--kubeconfig", c.Kubeconfig, "-o", "json")
	cmd := exec.Command(filepath.Join(root, "bin/calico-probe"), args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	before, began := c.requests.Load(), time.Now()
	err := cmd.Run()
	r := ran{took: time.Since(began), requests: c.requests.Load() - before, stderr: errs.String(),
		exit: cmd.ProcessState.ExitCode()}
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	r.report = out.Len()
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.memory = usage.Maxrss << 10
	}
	if err := json.Unmarshal(out.Bytes(), &r.Fleet); err != nil {
		t.Fatalf("exit %d, %v: %s%s", r.exit, err, out.Bytes(), r.stderr)
	}
	return r
}

// inRack are the first few nodes of a rack.
func inRack(rack, few int) []int {
	var out []int
	for i := rack; len(out) < few; i += 23 {
		out = append(out, i)
	}
	return out
}

// sprinkled is a cluster of so many nodes, of which ten are not well: six of one rack have lost their default route,
// three elsewhere the route to a pod, and one is silent. Two more are slow.
func sprinkled(t testing.TB, nodes int) (c *Cluster, want map[string][]string) {
	t.Helper()
	c = newCluster(t)
	does, want := map[string]Behaviour{}, map[string][]string{}
	night := func(cause, night string, of ...int) {
		for _, i := range of {
			does[nodeName(i)] = Behaviour{Night: night}
			want[cause] = append(want[cause], nodeName(i))
		}
	}
	night("default-route-missing", "real-default-route-deleted", inRack(3, 6)...)
	night("pod-route-missing", "real-pod-route-deleted", 101, 202, 404)
	const silent = 55
	want["kubelet-silent"] = []string{nodeName(silent)}
	does[nodeName(silent)] = Behaviour{Dead: true}
	for _, slow := range []int{7, 700} {
		does[nodeName(slow)] = Behaviour{Slow: 6 * time.Second}
	}
	kubelets := c.StartKubelets(t, does)
	c.Nodes(t, nodes, kubelets.Port)
	c.Renew(t, nodes, silent)
	return c, want
}

// found requires a separate group for each fault, and no other node in any group.
func (r ran) found(t testing.TB, want map[string][]string) {
	t.Helper()
	for _, g := range r.Groups {
		if !slices.Equal(g.Nodes, want[g.Cause]) {
			t.Errorf("%s%s: %d nodes %v, want %v", g.Cause, g.Check, len(g.Nodes), g.Nodes[:min(len(g.Nodes), 10)],
				want[g.Cause])
		}
		delete(want, g.Cause)
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}

// refusesUnasked requires that a run without a terminal refuses probes on this many nodes, before it creates an object.
func (c *Cluster) refusesUnasked(t *testing.T, nodes int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), root+"/bin/calico-probe", "run", "--all-nodes", "--kubeconfig", c.Kubeconfig)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 2 || strings.Count(errs.String(), "\n") != 1 ||
		!strings.Contains(errs.String(), fmt.Sprintf("on %d nodes of hollow (http://127.0.0.1:", nodes)) {
		t.Errorf("without --yes: %v, %s", err, errs.String())
	}
	jobs, err := c.Kube.BatchV1().Jobs(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(jobs.Items) > 0 {
		t.Errorf("without --yes: %v, %d jobs", err, len(jobs.Items))
	}
}

// TestThousandNodes puts a probe on each of a thousand nodes.
func TestThousandNodes(t *testing.T) {
	const nodes = 1000
	c, want := sprinkled(t, nodes)
	c.refusesUnasked(t, nodes)
	r := c.client(t, "run", "--all-nodes", "--yes")
	t.Logf("%d nodes in %v, %.1f requests a node, %d MB; %v", nodes, r.took.Round(100*time.Millisecond),
		float64(r.requests)/nodes, r.memory>>20, r.Verdicts)
	r.found(t, want)
	for _, g := range r.Groups {
		if g.Cause != "default-route-missing" {
			continue
		}
		if g.Common == nil || g.Common.Attribute != "label rack" || g.Common.Value != "r3" {
			t.Errorf("in common: %+v", g.Common)
		}
	}
	if r.requests > 6*nodes {
		t.Errorf("%d requests", r.requests)
	}
	left, err := c.Kube.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(),
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=calico-probe"})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%v: %d pods are left", err, len(left.Items))
	}
}

// BenchmarkFleet measures runs over a thousand nodes and more: with a probe on each, with probes on the suspects and
// three of each zone, and with none.
func BenchmarkFleet(b *testing.B) {
	all, sampled := []string{"--all-nodes", "--yes"}, []string{"-l", "kubernetes.io/os=linux", "--yes"}
	for _, size := range []struct {
		nodes int
		runs  map[string][]string
	}{
		{1000, map[string][]string{"all": all}},
		{5000, map[string][]string{"sampled": sampled, "all": all, "api": append(all, "--via", "api")}},
		{10_000, map[string][]string{"sampled": sampled, "all": append(all, "--timeout", "15m"),
			"api": append(all, "--via", "api")}},
		{20_000, map[string][]string{"sampled": sampled, "api": append(all, "--via", "api")}},
	} {
		b.Run(strconv.Itoa(size.nodes), func(b *testing.B) {
			cluster, _ := sprinkled(b, size.nodes)
			for _, name := range slices.Sorted(maps.Keys(size.runs)) {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						r := cluster.client(b, append([]string{"run"}, size.runs[name]...)...)
						b.ReportMetric(r.took.Seconds(), "run-s")
						b.ReportMetric(float64(r.requests)/float64(size.nodes), "requests/node")
						b.ReportMetric(float64(r.memory>>20), "MB")
						b.ReportMetric(float64(r.report)/(1<<20), "report-MB")
						b.ReportMetric(float64(cluster.memory(b, "kube-apiserver")>>20), "api-MB")
						b.Logf("%v, %d groups", r.Verdicts, len(r.Groups))
					}
				})
			}
		})
	}
}
