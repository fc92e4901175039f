//go:build e2e

package e2e

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reports "github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
)

// fleetReport runs the client over several nodes for a JSON report.
func fleetReport(t testing.TB, args ...string) (reports.Fleet, answer) {
	t.Helper()
	a := call(t, append(args, "-o", "json")...)
	var f reports.Fleet
	if err := json.Unmarshal([]byte(a.stdout), &f); err != nil || f.Verdict == nil {
		t.Fatalf("no report of a fleet: %v\nstdout: %s\nstderr: %s", err, a.stdout, a.stderr)
	}
	if f.Exit != a.exit {
		t.Errorf("the report says exit %d, the client exits %d", f.Exit, a.exit)
	}
	return f, a
}

// TestFleet puts a probe on every node, with one fault on one of them.
func TestFleet(t *testing.T) {
	f, a := fleetReport(t, "run", "--all-nodes", "--skip", "node-load")
	if len(f.Nodes) != 2 || len(f.Groups) > 0 && f.Word == reports.WordFault {
		t.Errorf("%s, %v in %v: %+v\n%s", f.Word, f.Verdicts, a.took, f.Groups, a.stderr)
	}
	for _, n := range f.Nodes {
		if len(n.Methods) != 2 || n.Counts.Total() < 40 {
			t.Errorf("%s was asked by %v: %v", n.Node, n.Methods, n.Counts)
		}
	}
	forwarding := func(on string) { mustSandbox(t, "exec", "node-b", "--", "sysctl", "-qw", "net.ipv4.ip_forward="+on) }
	defer forwarding("1")
	forwarding("0")
	f, _ = fleetReport(t, "run", "--all-nodes", "--skip", "node-load")
	if len(f.Groups) == 0 || f.Groups[0].Cause != "forwarding-off" || len(f.Groups[0].Nodes) != 1 ||
		f.Groups[0].Nodes[0] != "node-b" || f.Exit != reports.ExitFault {
		t.Errorf("%s: %+v", f.Word, f.Groups)
	}
	nothingLeft(t)
}

// TestFleetCompares injects a fault that only the comparison with a healthy node shows: ARP from pods is dropped.
func TestFleetCompares(t *testing.T) {
	mustSandbox(t, "exec", "node-b", "--", "nft", "add", "table", "arp", "fault")
	t.Cleanup(func() { mustSandbox(t, "exec", "node-b", "--", "nft", "delete", "table", "arp", "fault") })
	mustSandbox(t, "exec", "node-b", "--", "nft", "add", "chain", "arp", "fault", "in",
		"{ type filter hook input priority 0 ; policy drop ; }")
	mustSandbox(t, "exec", "node-b", "--", "nft", "add", "rule", "arp", "fault", "in", "iifname", "eth0", "accept")
	mustSandbox(t, "exec", "node-b", "--", "ip", "neigh", "flush", "all")
	f, a := fleetReport(t, "run", "--all-nodes", "--skip", "node-load")
	at := slices.IndexFunc(f.Groups, func(g probe.Group) bool { return g.Cause == "node-differs" })
	// Of two nodes each is the baseline of the other. The paths that fail tell which of them has the fault.
	accused := at >= 0 && (len(f.Groups[at].Nodes) == 1 ||
		slices.ContainsFunc(f.Groups[at].Witnesses, func(w probe.Witness) bool { return w.About == "node-b" }))
	if a.exit != reports.ExitFault || !accused || !slices.Contains(f.Groups[at].Nodes, "node-b") {
		t.Errorf("%s: %+v\n%s", f.Word, f.Groups, a.stderr)
	}
	f, _ = fleetReport(t, "run", "--all-nodes", "--skip", "node-load", "--baselines", "0")
	if slices.ContainsFunc(f.Groups, func(g probe.Group) bool { return g.Cause == "node-differs" }) {
		t.Errorf("compared without a baseline: %+v", f.Groups)
	}
	nothingLeft(t)
}

// TestFleetKilled requires that a client killed during its probes leaves nothing behind.
func TestFleetKilled(t *testing.T) {
	for name, end := range map[string]os.Signal{"killed": os.Kill, "Ctrl-C": os.Interrupt} {
		t.Run(name, func(t *testing.T) {
			cmd, out := started(t, nil, "run", "--all-nodes")
			go io.Copy(io.Discard, out) //nolint:errcheck // it ends with the client
			probes := metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=calico-probe"}
			count := func() int {
				pods, err := kube(t).CoreV1().Pods("").List(t.Context(), probes)
				if err != nil {
					t.Fatal(err)
				}
				return len(pods.Items)
			}
			for deadline := time.Now().Add(20 * time.Second); count() < 2; time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("no probe came to be")
				}
			}
			if err := cmd.Process.Signal(end); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			err := cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); end == os.Interrupt && code != 130 {
				t.Errorf("exit %d: %v", code, err)
			}
			for ; count() > 0; time.Sleep(200 * time.Millisecond) {
				if time.Since(began) > 90*time.Second {
					t.Fatalf("%d pods are left", count())
				}
			}
			t.Logf("nothing was left after %v", time.Since(began).Round(time.Second))
			nothingLeft(t)
		})
	}
}
