package checktest

import (
	"maps"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// Node creates a node's root directory from files. Its path is short enough for sockets. By default, the node's
// processes belong to root. Files below a folder "bin" are executable.
func Node(t *testing.T, files map[string]string) *probe.Host {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "node"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	all := map[string]string{}
	for name := range files {
		if dir, ok := strings.CutSuffix(name, "/cmdline"); ok {
			pid, _ := strconv.Atoi(path.Base(dir))
			Process(all, pid, 1, "", 0, "")
		}
	}
	maps.Copy(all, files)
	for name, text := range all {
		full := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(full), 0o755))
		mode := os.FileMode(0o644)
		if slices.Contains(strings.Split(name, "/"), "bin") {
			mode = 0o755
		}
		must.Do(t, os.WriteFile(full, []byte(text), mode))
	}
	return &probe.Host{Root: dir, Proc: filepath.Join(dir, "proc")}
}

// Run runs one check and returns its results. It does not run the checks that this check needs.
func Run(t *testing.T, c *probe.Check, h *probe.Host, targets ...probe.Target) []probe.Result {
	t.Helper()
	var got []probe.Result
	r := probe.Runner{Suite: []*probe.Check{c}, Host: h}
	r.Run(t.Context(), probe.Plan{Checks: []string{c.ID}, Targets: targets}, func(ev probe.Event) {
		if ev.Result != nil {
			got = append(got, *ev.Result)
		}
	})
	return got
}

// Lacking runs a check with a gap for each of these kinds.
func Lacking(t *testing.T, c *probe.Check, h *probe.Host, why string, kinds []string,
	targets ...probe.Target) []probe.Result {
	t.Helper()
	var got []probe.Result
	gaps := map[string]string{}
	for _, kind := range kinds {
		gaps[kind] = why
	}
	r := probe.Runner{Suite: []*probe.Check{c}, Host: h}
	r.Run(t.Context(), probe.Plan{Checks: []string{c.ID}, Targets: targets, Gaps: gaps}, func(ev probe.Event) {
		if ev.Result != nil {
			got = append(got, *ev.Result)
		}
	})
	return got
}

// InEtcd lists the kinds of targets that are missing if Calico has its own etcd.
var InEtcd = []string{probe.KindPool, probe.KindTunnel, probe.KindBlock, probe.KindSession, probe.KindFelix}

// Want fails the test unless a result for the target contains all strings in saw.
func Want(t *testing.T, got []probe.Result, target string, s probe.Status, saw ...string) probe.Result {
	t.Helper()
next:
	for _, r := range got {
		if r.Target != target || r.Status != s {
			continue
		}
		for _, text := range saw {
			if !strings.Contains(r.Saw, text) {
				continue next
			}
		}
		return r
	}
	t.Errorf("want %s about %q with %q, got:", s, target, saw)
	for _, r := range got {
		t.Errorf("  %s %q: %s", r.Status, r.Target, r.Saw)
	}
	return probe.Result{}
}

// Targets that describe how BIRD should be configured on a node.
func Self(addr string) probe.Target {
	return probe.Target{Kind: probe.KindSelf, Name: "n", Addr: netip.MustParseAddr(addr)}
}

func Backend(name string) probe.Target { return probe.Target{Kind: probe.KindBackend, Name: name} }
