package checks

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// node is a node's root made of files, under a path short enough for sockets. Its
// processes are root's unless it is said otherwise. What is below a folder "bin" may be executed.
func node(t *testing.T, files map[string]string) *probe.Host {
	t.Helper()
	dir, err := os.MkdirTemp("", "node")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	all := map[string]string{}
	for name := range files {
		if dir, ok := strings.CutSuffix(name, "/cmdline"); ok {
			pid, _ := strconv.Atoi(path.Base(dir))
			process(all, pid, 1, "", 0, "")
		}
	}
	maps.Copy(all, files)
	for name, text := range all {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if slices.Contains(strings.Split(name, "/"), "bin") {
			mode = 0o755
		}
		if err := os.WriteFile(full, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return &probe.Host{Root: dir, Proc: filepath.Join(dir, "proc")}
}

// run asks one check, without those it needs, and gives its results.
func run(t *testing.T, c *probe.Check, h *probe.Host, targets ...probe.Target) []probe.Result {
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

// lacking is run with a gap of each of these kinds.
func lacking(t *testing.T, c *probe.Check, h *probe.Host, why string, kinds []string,
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

// inEtcd are the kinds of target that nobody reads where Calico has an etcd of its own.
var inEtcd = []string{probe.KindPool, probe.KindTunnel, probe.KindBlock, probe.KindSession, probe.KindFelix}

// TestInEtcd wants nothing said of what Calico keeps in an etcd, and no alarm of it.
func TestInEtcd(t *testing.T) {
	t.Parallel()
	felix := probe.Target{Kind: probe.KindFelix, Name: "felix"}
	for _, c := range []*probe.Check{OverlayTunnels, IPSetHosts, RouteBlocks, BGPExpected} {
		if r := lacking(t, c, node(t, nil), probe.GapEtcd, inEtcd, felix)[0]; r.Status != probe.Skip ||
			!strings.Contains(r.Saw, probe.GapEtcd) && runtime.GOOS == "linux" {
			t.Errorf("%+v", r)
		}
		if r := lacking(t, c, node(t, nil), "forbidden", inEtcd, felix)[0]; r.Status != probe.Unknown &&
			runtime.GOOS == "linux" {
			t.Errorf("%+v", r)
		}
	}
	felix.Host, felix.Port = "127.0.0.1", 1 // nothing listens there
	want(t, lacking(t, FelixLive, node(t, nil), probe.GapEtcd, inEtcd, felix), "", probe.Skip, "refused",
		"whether Felix should answer there is not known")
	felix.Attrs = map[string]string{probe.AttrEnabled: "true"} // by its environment
	want(t, lacking(t, FelixLive, node(t, nil), probe.GapEtcd, inEtcd, felix), "", probe.Fail, "refused")
}

// want fails unless one of the results is about the target and says all of saw.
func want(t *testing.T, got []probe.Result, target string, s probe.Status, saw ...string) probe.Result {
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

func TestSuite(t *testing.T) {
	t.Parallel()
	if err := probe.Validate(All()); err != nil {
		t.Error(err)
	}
	for _, c := range All() {
		if !c.OnNode() || len(c.Access) == 0 {
			t.Errorf("%s: vantage %q, access %v", c.ID, c.From, c.Access)
		}
	}
}

// TestFamilies wants a family to select what its name says, and never a check that takes a probe on
// another node.
func TestFamilies(t *testing.T) {
	t.Parallel()
	twoProbes := []*probe.Check{EncapProof, NeighbourReach}
	for _, c := range All() {
		if has := len(c.Tags) > 0; has == slices.Contains(twoProbes, c) {
			t.Errorf("%s: families %v", c.ID, c.Tags)
		}
	}
	ids := func(checks []*probe.Check, err error) string {
		var out []string
		for _, c := range checks {
			out = append(out, c.ID)
		}
		return fmt.Sprint(out, err)
	}
	for family, want := range map[string]string{
		"bgp":     "[bird-socket bgp-session bird-config bgp-expected bgp-port] <nil>",
		"overlay": "[overlay-tunnels ipset-hosts] <nil>",
		"dns":     "[dns-cluster dns-external kube-log] <nil>",
		"service": "[service-clusterip service-nodeport service-destination kubeproxy-health kube-log] <nil>",
	} {
		if got := ids(probe.Select(All(), []string{family}, nil)); got != want {
			t.Errorf("--checks %s selects %s", family, got)
		}
	}
	// What a cluster with VXLAN and without BGP needs stays.
	rest, err := probe.Select(All(), nil, []string{"bgp"})
	for _, c := range []*probe.Check{PodPing, PodTCP, RouteBlocks, IPAutodetect, EncapProof} {
		if err != nil || !slices.Contains(rest, c) {
			t.Errorf("--skip bgp leaves out %s (%v)", c.ID, err)
		}
	}
}

// The kinds of plan that say what a node's BIRD should be like.
func self(addr string) probe.Target {
	return probe.Target{Kind: probe.KindSelf, Name: "n", Addr: netip.MustParseAddr(addr)}
}

func backend(name string) probe.Target { return probe.Target{Kind: probe.KindBackend, Name: name} }

func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	for _, c := range []*probe.Check{NodePing, PodPing, RouteCanReach} {
		want(t, run(t, c, &probe.Host{}), "", probe.Skip, "known")
	}
}

func ExampleAll() {
	fmt.Println(All()[0].ID, "-", All()[0].Asks)
	// Output: felix-live - does Felix answer its liveness port?
}

// TestEverySocketSilent is the worst night: BIRD, containerd and dockerd accept and
// never answer. Everything ends in its time, and says so.
func TestEverySocketSilent(t *testing.T) {
	t.Parallel()
	h := node(t, map[string]string{"run/calico/x": "", "run/containerd/x": "", "proc/7/comm": "dockerd\n",
		"proc/7/cmdline": "dockerd\x00"})
	for _, name := range []string{"run/calico/bird.ctl", "run/calico/bird6.ctl", "run/containerd/containerd.sock",
		"run/docker.sock"} {
		l, err := net.Listen("unix", filepath.Join(h.Root, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	var ids []string
	for _, c := range All() {
		ids = append(ids, c.ID)
	}
	began := time.Now()
	var got []probe.Result
	ended := false
	r := probe.Runner{Suite: All(), Host: h}
	r.Run(t.Context(), probe.Plan{Checks: ids,
		Targets: []probe.Target{backend("bird"), self("10.0.0.1"), self("fd00::1")}}, func(ev probe.Event) {
		if ev.Result != nil {
			got = append(got, *ev.Result)
		}
		ended = ended || ev.Type == probe.EventEnd
	})
	if took := time.Since(began); !ended || took > 12*time.Second { // the longest limit is ten
		t.Errorf("ended %v after %v", ended, took)
	}
	for id, target := range map[string]string{
		"bird-socket": "/run/calico/bird.ctl", "containerd-health": "version", "docker-health": "info",
		"cri-health": "/run/containerd/containerd.sock version",
	} {
		if !slices.ContainsFunc(got, func(r probe.Result) bool {
			return r.Check == id && r.Target == target && r.Status == probe.Fail &&
				r.Facts.Str(probe.FactReason) == "timeout"
		}) {
			t.Errorf("%s of %s is not called a timeout", id, target)
		}
	}
}
