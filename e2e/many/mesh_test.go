//go:build e2e

// Package many tests on a cluster of twelve real nodes what takes more than two.
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

	"github.com/calico-probe/calico-probe/mesh"
	"github.com/calico-probe/calico-probe/report"
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
		{"up", "--nodes", fmt.Sprint(nodes), "--timeout", "4m"}, {"load", "../../.cache/probe.tar"}, {"kubeconfig"},
	} {
		out, err := sandbox(args[0], args[1:]...)
		if err != nil {
			fmt.Fprintf(os.Stderr, "sandbox %s: %v\n%s", args[0], err, out)
			return 1
		}
		os.Setenv("KUBECONFIG", strings.TrimSpace(out))
	}
	for i := range nodes {
		cmd := exec.Command("../../.cache/bin/kubectl", "label", "node", node(i), "topology.kubernetes.io/zone=z"+fmt.Sprint(i%zones))
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
	cmd := exec.CommandContext(ctx, filepath.Join("..", "..", "bin", "sandbox"), args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errs.Bytes())
	}
	return string(out), err
}

func node(i int) string { return "node-" + string(rune('a'+i)) }

// cut has a node drop what comes from others, or goes there.
func cut(t *testing.T, at int, from ...int) {
	t.Helper()
	var addrs []string
	for _, i := range from {
		addrs = append(addrs, fmt.Sprintf("10.88.0.%d", 11+i))
	}
	set := strings.Join(addrs, ", ")
	rules := fmt.Sprintf(`table ip cut {
 chain in { type filter hook prerouting priority -400; ip saddr { %s } drop; }
 chain out { type filter hook output priority -400; ip daddr { %s } drop; }
}`, set, set)
	if out, err := sandbox("exec", node(at), "--", "nft", rules); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := sandbox("exec", node(at), "--", "nft", "delete table ip cut"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// TestMesh breaks something between the nodes, and wants it to be named.
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
		spoil func(*testing.T)
		want  []string // kind and names
	}{
		{"nothing", func(*testing.T) {}, nil},
		{"a node", func(t *testing.T) { cut(t, 6, others(6)...) }, []string{"node node-g"}},
		{"two zones", func(t *testing.T) {
			for i := 0; i < nodes; i += zones {
				cut(t, i, 1, 4, 7, 10)
			}
		}, []string{"zones z0 z1"}},
		{"a pair", func(t *testing.T) { cut(t, 2, 9) }, []string{"pair node-c node-j"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spoil(t)
			cmd := exec.CommandContext(t.Context(), "../../bin/calico-probe", "mesh", "-o", "json")
			var errs bytes.Buffer
			cmd.Stderr = &errs
			b, err := cmd.Output()
			var r mesh.Report
			if bad := json.Unmarshal(b, &r); bad != nil {
				t.Fatalf("%v, %v: %s%s", err, bad, b, errs.Bytes())
			}
			var got []string
			for _, p := range r.Planes {
				if p.Name != "node" {
					continue
				}
				for _, f := range p.Findings {
					got = append(got, strings.Join(append([]string{f.Kind}, f.Names...), " "))
				}
				t.Logf("%d of %d paths fail, in %v", p.Failed, p.Tried, r.Elapsed.Round(100*time.Millisecond))
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
