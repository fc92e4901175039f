//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/suite"
	"github.com/calico-probe/calico-probe/probe"
)

// TestHealthy requires a healthy verdict for a healthy node, with every check good in both families, by every access
// method.
func TestHealthy(t *testing.T) {
	settled(t)
	for _, way := range []string{"pod", "ephemeral"} {
		t.Run(way, func(t *testing.T) {
			d, a := report(t, "run", "--node", "node-a", "--via", way, "--profile", "deep")
			if a.exit != 0 || d.Verdict != "healthy" {
				t.Errorf("exit %d, %s\n%s", a.exit, d.Verdict, a.stderr)
			}
			wantAllGood(t, d)
		})
	}
}

// core lists the checks that must be ok on every healthy node. Other checks may not apply there (docker), or may warn
// (an unsynchronized clock).
var core = []string{
	"felix-live", "felix-ready", "bird-socket", "bgp-session", "bgp-port", "ip-autodetect", "route-blocks",
	"datastore-latency", "dns-cluster", "node-ping", "pod-ping", "route-can-reach",
	"node-uplink", "pod-uplink", "encap-proof", "containerd-health", "cri-health", "kubelet-health", "kubeproxy-health",
	"init-stall", "cni-config", "cni-nodename", "ipam-files",
	"node-swap", "node-load", "node-disk", "node-conntrack", "node-sysctl",
	"runtime-ghosts", "cni-mtu", "pod-tcp", "pod-mtu", "service-clusterip", "service-nodeport", "bird-config",
	"bgp-expected",
}

// wantAllGood requires a good answer to every node check.
func wantAllGood(t *testing.T, d document) {
	t.Helper()
	for _, c := range suite.Node() {
		got := d.of(c.ID)
		if len(got) == 0 && c != link.NeighbourReach { // asked where something is wrong
			t.Errorf("%s: no answer", c.ID)
		}
		for _, r := range got {
			if r.Status != probe.OK && (slices.Contains(core, c.ID) || r.Status != probe.Info && r.Status != probe.Skip) {
				t.Errorf("not ok: %v", r)
			}
		}
	}
	d.want(t, "kubeproxy-health", probe.OK, "services: ", "have chains in nftables")
	for _, r := range d.Results {
		if !slices.Contains([]probe.Status{probe.OK, probe.Info, probe.Skip}, r.Status) {
			t.Errorf("on a healthy cluster: %v", r)
		}
	}
	for _, c := range []string{
		"bgp-session", "pod-ping", "node-ping", "route-can-reach", "bird-socket", "bgp-port", "ip-autodetect",
	} {
		families := map[float64]bool{}
		for _, r := range d.of(c) {
			f, _ := r.Facts.Num(probe.FactFamily)
			families[f] = true
		}
		if !families[4] || !families[6] {
			t.Errorf("%s: one family only: %v", c, d.of(c))
		}
	}
	for _, w := range d.Methods {
		if !w.Complete {
			t.Errorf("way %s is not complete", w.Method)
		}
	}
}

func TestTheAPIAloneCreatesNothing(t *testing.T) {
	d, a := report(t, "run", "--node", "node-b", "--via", "api")
	if a.exit != 0 || len(d.Methods) != 1 {
		t.Errorf("exit %d, ways %v\n%s", a.exit, d.Methods, a.stderr)
	}
	for _, id := range []string{
		"node-ready", "node-lease", "node-taints", "calico-pod", "calico-budget", "ip-registered",
	} {
		if len(d.of(id)) == 0 {
			t.Errorf("%s: no answer", id)
		}
	}
}

// TestEphemeralWhileInitHangs examines a node whose calico-node never leaves its first init container, and requires the
// report to show the effects.
func TestEphemeralWhileInitHangs(t *testing.T) {
	t.Cleanup(func() {
		mustSandbox(t, "init-hang", "node-a", "off")
		calicoReady(t, "node-a")
	})
	mustSandbox(t, "init-hang", "node-a", "on")
	d, a := report(t, "run", "--node", "node-a", "--via", "ephemeral")
	if a.exit != 3 {
		t.Errorf("exit %d\n%s", a.exit, a.stderr)
	}
	d.want(t, "calico-pod", probe.Warn, "Init:0/3", "upgrade-ipam")
	d.want(t, "probe-placed", probe.OK)
	d.want(t, "containerd-health", probe.OK)
	d.want(t, "node-ping", probe.OK)
	d.want(t, "node-swap", probe.OK)
	d.want(t, "felix-live", probe.Fail, "refused")
	d.want(t, "bird-socket", probe.Fail)
	d.want(t, "ipam-files", probe.Warn, "1 addresses", "upgrade-ipam migrates them")
	d.want(t, "init-stall", probe.Info, "upgrade-ipam", "has been running")

	pool := func(disabled bool) { // with it goes what the Node's podCIDR lies in
		t.Helper()
		if err := kube(t).CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath("/apis/crd.projectcalico.org/v1/ippools/default-ipv4-ippool").
			Body(fmt.Appendf(nil, `{"spec":{"disabled":%t}}`, disabled)).Do(context.Background()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { pool(false) })
	pool(true)
	d, _ = report(t, "run", "--node", "node-a", "--via", "ephemeral", "--checks", "ipam-files")
	d.want(t, "ipam-files", probe.Fail, "upgrade-ipam cannot migrate", "no enabled IP pool contains", "podCIDR")
}

// TestFelix requires that the report distinguishes each Felix fault from the others.
func TestFelix(t *testing.T) {
	t.Cleanup(func() { mustSandbox(t, "felix", "node-a", "ok") })
	for _, c := range []struct {
		mode   string
		status probe.Status
		saw    string
	}{
		{"204", probe.OK, "204"},
		{"503", probe.Fail, "InternalDataplaneMainLoop"},
		{"hang", probe.Fail, "no answer"},
		{"refuse", probe.Fail, "refused"},
	} {
		t.Run(c.mode, func(t *testing.T) {
			mustSandbox(t, "felix", "node-a", c.mode)
			d, a := report(t, "run", "--node", "node-a", "--via", "pod", "--checks", "felix-live,felix-ready")
			d.want(t, "felix-live", c.status, c.saw)
			d.want(t, "felix-ready", c.status, c.saw)
			if want := map[probe.Status]int{probe.OK: 0, probe.Fail: 3}[c.status]; a.exit != want {
				t.Errorf("exit %d, want %d", a.exit, want)
			}
		})
	}
}

// TestStreamFormats requires the same complete run in every format, and only results on stdout.
func TestStreamFormats(t *testing.T) {
	settled(t)
	a := call(t, "run", "--node", "node-a", "-o", "ndjson")
	d := probe.NewDecoder(strings.NewReader(a.stdout))
	d.Noise = func(line string) { t.Errorf("not an event: %q", line) }
	var types []probe.EventType
	for seq := int64(0); ; seq++ {
		ev, err := d.Next()
		if err != nil {
			break
		}
		if ev.Seq != seq {
			t.Errorf("event %d has number %d", seq, ev.Seq)
		}
		types = append(types, ev.Type)
	}
	if len(types) == 0 || types[len(types)-1] != probe.EventVerdict {
		t.Errorf("the stream does not end with a verdict: %v", types)
	}
	if a.stderr != "" {
		t.Errorf("chatter where stderr is no terminal: %s", a.stderr)
	}
	table := call(t, "run", "--node", "node-a")
	if table.exit != 0 || !strings.Contains(table.stdout, "healthy on ") || strings.Contains(table.stdout, "\x1b") {
		t.Errorf("exit %d\n%s", table.exit, table.stdout)
	}
	t.Logf("what a user sees:\n%s", table.stdout)
	if !json.Valid([]byte(call(t, "checks", "-o", "json").stdout)) {
		t.Error("checks -o json is not JSON")
	}
}
