//go:build e2e

// Package many has the tests that need more than two nodes, on a cluster of twelve real nodes.
package many

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/mesh"
	"github.com/calico-probe/calico-probe/internal/report"
)

// nodes is how many there are, node-a and on, and zones how many zones they are in, one after the other.
const (
	nodes = 12
	zones = 3
)

var clusterName = cmp.Or(os.Getenv("E2E_CLUSTER"), "e2e") + "-many"

func TestMain(m *testing.M) { os.Exit(onCluster(m)) }

func onCluster(m *testing.M) int {
	defer sandbox("down") //nolint:errcheck // it says so itself
	for _, args := range [][]string{
		{"up", "--nodes", fmt.Sprint(nodes), "--timeout", "4m"}, {"load", "../../../.cache/probe.tar"}, {"kubeconfig"},
	} {
		out, err := sandbox(args[0], args[1:]...)
		if err != nil {
			fmt.Fprintf(os.Stderr, "sandbox %s: %v\n%s", args[0], err, out)
			return 1
		}
		os.Setenv("KUBECONFIG", strings.TrimSpace(out))
	}
	for i := range nodes {
		cmd := exec.Command("../../../.cache/bin/kubectl", "label", "node", node(i),
			"topology.kubernetes.io/zone=z"+fmt.Sprint(i%zones), "topology.kubernetes.io/rack=r"+fmt.Sprint(i/zones%2))
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "labelling %s: %v: %s", node(i), err, out)
			return 1
		}
	}
	return m.Run()
}

func sandbox(verb string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	args = append([]string{verb, "--name", clusterName}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join("..", "..", "..", "bin", "sandbox"), args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errs.Bytes())
	}
	return string(out), err
}

func node(i int) string { return "node-" + string(rune('a'+i)) }

// address is that of a node.
func address(i int) string { return fmt.Sprintf("10.88.0.%d", 11+i) }

// cut has a node drop packets from or to other nodes.
func cut(t *testing.T, at int, from ...int) {
	t.Helper()
	var addrs []string
	for _, i := range from {
		addrs = append(addrs, address(i))
	}
	set := strings.Join(addrs, ", ")
	filter(t, at, fmt.Sprintf("ip saddr { %s } drop", set), fmt.Sprintf("ip daddr { %s } drop", set))
}

// filter has a node apply one rule to incoming packets and another to outgoing packets.
func filter(t *testing.T, at int, in, out string) {
	t.Helper()
	rules := fmt.Sprintf(`table ip cut {
 chain in { type filter hook prerouting priority -400; %s; }
 chain out { type filter hook output priority -400; %s; }
}`, in, out)
	on(t, at, "nft", rules)
	t.Cleanup(func() { on(t, at, "nft", "delete table ip cut") })
}

// on runs a command on a node.
func on(t *testing.T, at int, command ...string) {
	t.Helper()
	if out, err := sandbox("exec", append([]string{node(at), "--"}, command...)...); err != nil {
		t.Errorf("%s: %v: %s", command[0], err, out)
	}
}

// noBGP has two nodes drop each other's BGP packets, and restarts their session.
func noBGP(t *testing.T, a, b int) {
	t.Helper()
	restart := func(at, with int) {
		on(t, at, "perl", "-MIO::Socket::UNIX", "-e", fmt.Sprintf(
			`$s = IO::Socket::UNIX->new("/run/calico/bird.ctl") or die $!; print $s "restart Mesh_%s\n"; sleep 1`,
			strings.ReplaceAll(address(with), ".", "_")))
	}
	for _, ends := range [][2]int{{a, b}, {b, a}} {
		filter(t, ends[0], fmt.Sprintf("ip saddr %s tcp dport 179 drop", address(ends[1])),
			fmt.Sprintf("ip daddr %s tcp dport 179 drop", address(ends[1])))
	}
	restart(a, b)
	restart(b, a)
}

// TestMesh breaks a path between nodes, and requires that the report names it.
func TestMesh(t *testing.T) {
	others := func(than int) []int {
		var out []int
		for i := range nodes {
			if i != than {
				out = append(out, i)
			}
		}
		return out
	}
	for _, c := range []struct {
		name  string
		deep  bool
		spoil func(*testing.T)
		want  []string // plane, kind and names
	}{
		{"nothing", true, func(*testing.T) {}, nil},
		{"a node", false, func(t *testing.T) { cut(t, 6, others(6)...) },
			// what comes from pods elsewhere still passes
			[]string{"node node node-g", "pod node in node-g", "tcp node node-g"}},
		{"two zones", false, func(t *testing.T) {
			for i := 0; i < nodes; i += zones {
				cut(t, i, 1, 4, 7, 10)
			}
		}, []string{"node zones z0 z1", "pod zones out z1 z0", "tcp zones z0 z1"}},
		{"a rack", false, func(t *testing.T) {
			for i := 1; i < nodes; i += 2 * zones { // node-b and node-h
				cut(t, i, slices.DeleteFunc(others(i), func(o int) bool { return o%(2*zones) == 1 })...)
			}
		}, []string{"node rack r0 z1", "pod rack in r0 z1", "tcp rack r0 z1"}},
		{"a pair", false, func(t *testing.T) { cut(t, 2, 7) },
			[]string{"node pair node-c node-h", "pod pair node-h node-c", "tcp pair node-c node-h"}},
		{"a session", false, func(t *testing.T) { noBGP(t, 3, 6) }, []string{"bgp pair node-d node-g"}},
		{"TCP to a node", false, func(t *testing.T) { // the API server still reaches it
			filter(t, 5, "ip saddr 10.88.0.11-10.88.0.22 tcp dport 10250 drop", "ip daddr 10.99.99.99 drop")
		}, []string{"tcp node in node-f"}},
		{"large packets to a node", true, func(t *testing.T) {
			on(t, 4, "ip", "link", "set", "eth0", "mtu", "1300")
			t.Cleanup(func() { on(t, 4, "ip", "link", "set", "eth0", "mtu", "1500") })
		}, []string{"mtu node in node-e"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spoil(t)
			args := []string{"mesh", "-o", "json"}
			if c.deep {
				args = append(args, "--profile", "deep")
			}
			cmd := exec.CommandContext(t.Context(), "../../../bin/calico-probe", args...)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			b, err := cmd.Output()
			var r mesh.Report
			if bad := json.Unmarshal(b, &r); bad != nil {
				t.Fatalf("%v, %v: %s%s", err, bad, b, errs.Bytes())
			}
			var got []string
			for _, p := range r.Planes {
				for _, f := range p.Findings {
					got = append(got, strings.Join(append(strings.Fields(p.Name+" "+f.Kind+" "+f.Direction), f.Names...), " "))
				}
				t.Logf("%s: %d of %d paths fail, %d unknown, in %v", p.Name, p.Failed, p.Tried, p.Unknown,
					r.Elapsed.Round(100*time.Millisecond))
				if p.Tried != nodes*(nodes-1) && (p.Name != mesh.PlaneMTU || c.deep) {
					t.Errorf("%s: %d paths were tried, %q", p.Name, p.Tried, p.Left)
				}
			}
			exit := report.ExitHealthy
			if c.want != nil {
				exit = report.ExitFault
			}
			if !slices.Equal(got, c.want) || r.Exit != exit || cmd.ProcessState.ExitCode() != exit {
				t.Errorf("%q, exit %d, want %q\n%s", got, r.Exit, c.want, errs.Bytes())
			}
		})
	}
}
