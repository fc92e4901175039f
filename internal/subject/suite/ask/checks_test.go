package ask

import (
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	felixfacts "github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestInEtcd expects a skip about data that Calico keeps in etcd, and no alarm.
func TestInEtcd(t *testing.T) {
	t.Parallel()
	felix := probe.Target{Kind: probe.KindFelix, Name: "felix"}
	for _, c := range []*probe.Check{runnable(overlay.OverlayTunnels), runnable(overlay.IPSetHosts),
		runnable(route.RouteBlocks), runnable(bgp.BGPExpected)} {
		if r := checktest.Lacking(t, c, checktest.Node(t, nil), probe.GapEtcd, checktest.InEtcd,
			felix)[0]; r.Status != probe.Skip ||
			!strings.Contains(r.Saw, probe.GapEtcd) && runtime.GOOS == "linux" {
			t.Errorf("%+v", r)
		}
		if r := checktest.Lacking(t, c, checktest.Node(t, nil), "forbidden", checktest.InEtcd,
			felix)[0]; r.Status != probe.Unknown &&
			runtime.GOOS == "linux" {
			t.Errorf("%+v", r)
		}
	}
	felix.Host, felix.Port = "127.0.0.1", 1 // nothing listens there
	checktest.Want(t, checktest.Lacking(t, runnable(felixfacts.FelixLive), checktest.Node(t, nil), probe.GapEtcd,
		checktest.InEtcd, felix), "", probe.Skip, "refused",
		"unknown whether Felix should answer there")
	felix.Attrs = map[string]string{probe.AttrEnabled: "true"} // by its environment
	checktest.Want(t, checktest.Lacking(t, runnable(felixfacts.FelixLive), checktest.Node(t, nil), probe.GapEtcd,
		checktest.InEtcd, felix), "", probe.Fail, "refused")
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
	for _, c := range bySubject() { // Validate finds a check without a function
		if n := len(slices.DeleteFunc(All(), func(a *probe.Check) bool { return a != c })); n != 1 {
			t.Errorf("%s has a function, and is %d times in the suite: add it to Checks of its subject", c.ID, n)
		}
	}
}

// TestFamilies expects each family to select its checks, but never one that needs a probe on another node.
func TestFamilies(t *testing.T) {
	t.Parallel()
	twoProbes := []*probe.Check{runnable(overlay.EncapProof), runnable(link.NeighbourReach)}
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
	// Checks that a cluster with VXLAN and without BGP needs stay selected.
	rest, err := probe.Select(All(), nil, []string{"bgp"})
	for _, c := range []*probe.Check{runnable(pod.PodPing), runnable(pod.PodTCP), runnable(route.RouteBlocks),
		runnable(link.IPAutodetect), runnable(overlay.EncapProof)} {
		if err != nil || !slices.Contains(rest, c) {
			t.Errorf("--skip bgp leaves out %s (%v)", c.ID, err)
		}
	}
}

// TestNoTargets expects a skip from checks without a target.
func TestNoTargets(t *testing.T) {
	t.Parallel()
	for _, c := range []*probe.Check{runnable(link.NodePing), runnable(pod.PodPing), runnable(route.RouteCanReach)} {
		checktest.Want(t, checktest.Run(t, c, &probe.Host{}), "", probe.Skip, "known")
	}
}

func ExampleAll() {
	fmt.Println(All()[0].ID)
	// Output: felix-live
}

// TestEverySocketSilent has BIRD, containerd and dockerd accept connections but never answer. It expects every check to
// end within its limit, with a timeout as the reason.
func TestEverySocketSilent(t *testing.T) {
	t.Parallel()
	h := checktest.Node(t, map[string]string{"run/calico/x": "", "run/containerd/x": "", "proc/7/comm": "dockerd\n",
		"proc/7/cmdline": "dockerd\x00"})
	for _, name := range []string{"run/calico/bird.ctl", "run/calico/bird6.ctl", "run/containerd/containerd.sock",
		"run/docker.sock"} {
		l := must.Get(net.Listen("unix", filepath.Join(h.Root, name)))(t)
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
		Targets: []probe.Target{checktest.Backend("bird"), checktest.Self("10.0.0.1"), checktest.Self("fd00::1")}},
		func(ev probe.Event) {
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
			t.Errorf("%s of %s is no timeout", id, target)
		}
	}
}
