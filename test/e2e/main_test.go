//go:build e2e

// Package e2e tests the client, the probe and the access methods against the
// sandbox: a real two-node cluster with kubelets, containerd and BIRD. It needs
// root and what 'make build image sandbox' builds.
package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/calico-probe/calico-probe/probe"
)

// clusterName is the tests' own cluster. Suites with clusters of different names
// can run side by side.
var clusterName = cmp.Or(os.Getenv("E2E_CLUSTER"), "e2e")

func TestMain(m *testing.M) { os.Exit(onCluster(m)) }

// onCluster runs the tests on a cluster of their own.
func onCluster(m *testing.M) int {
	began := time.Now()
	defaults, err := os.CreateTemp("", "defaults") // not those of the person who runs the tests
	if err == nil {
		defer os.Remove(defaults.Name())
		err = os.Setenv("CALICO_PROBE_DEFAULTS", defaults.Name())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	up := []string{"up", "--name", clusterName, "--timeout", "150s"}
	if calico != "" {
		up = []string{"up", "--name", clusterName, "--calico", calico, "--manifest", manifest}
	}
	up = append(up, strings.Fields(os.Getenv("SANDBOX_UP"))...) // --machines, --kubernetes 1.31
	if out, err := sandbox(up...); err != nil {
		fmt.Fprintf(os.Stderr, "no sandbox cluster: %v\n%s", err, out)
		return 1
	}
	defer func() {
		if out, err := sandbox("down", "--name", clusterName); err != nil {
			fmt.Fprintf(os.Stderr, "sandbox down: %v\n%s", err, out)
		}
	}()
	if !onMachines() { // those have it on their disk
		if out, err := sandbox("load", "--name", clusterName, file(".cache/probe.tar")); err != nil {
			fmt.Fprintf(os.Stderr, "loading the probe image: %v\n%s", err, out)
			return 1
		}
	}
	config, err := sandbox("kubeconfig", "--name", clusterName)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Setenv("KUBECONFIG", strings.TrimSpace(config)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("cluster up and probe image loaded in %v\n", time.Since(began).Round(100*time.Millisecond))
	return m.Run()
}

// slow leaves a test to test-all: it takes half a minute or more, or waits for a lease.
func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow: make test-all runs it")
	}
}

// file is a path in the repository.
func file(name string) string {
	abs, err := filepath.Abs(filepath.Join("..", "..", name))
	if err != nil {
		panic(err) // the working directory is gone
	}
	return abs
}

// onMachines reports whether the nodes are virtual machines, which are some thirty times slower.
func onMachines() bool { return strings.Contains(os.Getenv("SANDBOX_UP"), "--machines") }

// slowRun are the flags of a run on such nodes. No other node tests the broken one, because two probes at once take the
// machine's processors from each other.
var slowRun = []string{"--start-timeout", "5m", "--check-timeout", "3m", "--timeout", "12m", "--baselines", "0"}

// patience is how long something may take here that usually takes at most the given time.
func patience(usually time.Duration) time.Duration {
	if onMachines() {
		return 5 * usually
	}
	return usually
}

func sandbox(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience(6*time.Minute))
	defer cancel()
	out, err := exec.CommandContext(ctx, file("bin/sandbox"), args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("sandbox %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return string(out), err
}

// mustSandbox runs a sandbox verb on the tests' cluster.
func mustSandbox(t testing.TB, verb string, args ...string) string {
	t.Helper()
	out, err := sandbox(append([]string{verb, "--name", clusterName}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// answer is what one call of the client gave.
type answer struct {
	exit           int
	stdout, stderr string
	took           time.Duration
}

// folded is stdout on one line: reports for people are broken at 80 columns.
func (a answer) folded() string { return strings.Join(strings.Fields(a.stdout), " ") }

// client is calico-probe with the given arguments, not yet started. It is
// killed with its test.
func client(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience(3*time.Minute))
	t.Cleanup(cancel)
	if onMachines() && args[0] == "run" {
		args = append(args, slowRun...)
	}
	return exec.CommandContext(ctx, file("bin/calico-probe"), args...)
}

// started is a client that runs, and its stdout. Its stderr goes to the
// writer given, if any.
func started(t testing.TB, stderr io.Writer, args ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := client(t, args...)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// call runs the client to its end.
func call(t testing.TB, args ...string) answer {
	t.Helper()
	cmd := client(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return answer{cmd.ProcessState.ExitCode(), out.String(), errs.String(), time.Since(began)}
}

// located is one result of a JSON report.
type located struct {
	Method string `json:"way"`
	Node   string `json:"node"` // another one than that in question
	probe.Result
}

// document is a JSON report.
type document struct {
	Verdict string `json:"verdict"`
	Exit    int    `json:"exit"`
	Methods []struct {
		Method   string   `json:"way"`
		Complete bool     `json:"complete"`
		Access   []string `json:"access"`
	} `json:"ways"`
	Results  []located     `json:"results"`
	Contrast []string      `json:"contrast"`
	Causes   []probe.Cause `json:"causes"`
}

// there gives what the peer answered, as if that were the node in question.
func (d document) there() document {
	out := document{}
	for _, r := range d.Results {
		if r.Node != "" {
			r.Node = ""
			out.Results = append(out.Results, r)
		}
	}
	return out
}

// report runs the client for a JSON report, and requires the exit code in the report.
func report(t testing.TB, args ...string) (document, answer) {
	t.Helper()
	a := call(t, append(args, "-o", "json")...)
	var d document
	if err := json.Unmarshal([]byte(a.stdout), &d); err != nil {
		t.Fatalf("no JSON report: %v\nstdout: %s\nstderr: %s", err, a.stdout, a.stderr)
	}
	if d.Exit != a.exit {
		t.Errorf("the report says exit %d, the client exits %d", d.Exit, a.exit)
	}
	return d, a
}

// of gives the results of one check on the node in question.
func (d document) of(check string) []located {
	var out []located
	for _, r := range d.Results {
		if r.Check == check && r.Node == "" {
			out = append(out, r)
		}
	}
	return out
}

// want requires a result of the check that contains all texts in saw (without saw: any result). Every such result must
// have the status.
func (d document) want(t testing.TB, check string, s probe.Status, saw ...string) {
	t.Helper()
	says := func(r located) bool {
		return !slices.ContainsFunc(saw, func(text string) bool { return !strings.Contains(r.Target+": "+r.Saw, text) })
	}
	found := 0
	for _, r := range d.of(check) {
		if !says(r) {
			continue
		}
		if found++; r.Status != s {
			t.Errorf("%s: got %v, want %s of what says %q", check, r, s, saw)
		}
	}
	if found == 0 {
		t.Errorf("%s: got %v, want %s with %q", check, d.of(check), s, saw)
	}
}

func (r located) String() string {
	return fmt.Sprintf("[%s %s %s: %s]", r.Status, r.Check, r.Target, r.Saw)
}

func kube(t testing.TB) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// eventually waits until ok gives "" and fails with its last text otherwise.
func eventually(t testing.TB, limit time.Duration, ok func() string) {
	t.Helper()
	limit = patience(limit)
	deadline := time.Now().Add(limit)
	for {
		why := ok()
		if why == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %s", limit, why)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// settled waits until this machine, which is the nodes' too, is no busier than a
// healthy node: what was built and started before the test still counts in its
// load average.
func settled(t testing.TB) {
	t.Helper()
	eventually(t, 5*time.Minute, func() string {
		b, err := os.ReadFile("/proc/loadavg")
		if err != nil {
			return err.Error()
		}
		load, err := strconv.ParseFloat(strings.Fields(string(b))[0], 64)
		if err != nil {
			return err.Error()
		}
		if load > 3*float64(runtime.NumCPU()) {
			return fmt.Sprintf("the machine's load is still %.1f", load)
		}
		return ""
	})
}

// nodeReady waits until the API calls the node ready and its calico-node too.
func nodeReady(t testing.TB, node string) {
	t.Helper()
	k := kube(t)
	eventually(t, 2*time.Minute, func() string {
		n, err := k.CoreV1().Nodes().Get(context.Background(), node, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, taint := range n.Spec.Taints { // removed some seconds after the condition changes
			if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
				return node + " has the taint " + taint.Key
			}
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return node + " is not ready"
	})
	calicoReady(t, node)
}

// calicoReady waits until calico-node on the node is ready; clean-ups use it, so
// it does not end with the test's own context.
func calicoReady(t testing.TB, node string) {
	t.Helper()
	k := kube(t)
	eventually(t, 90*time.Second, func() string {
		pods, err := k.CoreV1().Pods("kube-system").List(context.Background(), metav1.ListOptions{
			LabelSelector: "k8s-app=calico-node", FieldSelector: "spec.nodeName=" + node,
		})
		if err != nil {
			return err.Error()
		}
		for _, p := range pods.Items {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
					return ""
				}
			}
		}
		return "calico-node is not ready on " + node
	})
}
