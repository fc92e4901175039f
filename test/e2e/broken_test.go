//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/calico-probe/calico-probe/probe"
)

// signalAll sends a signal to every process of that name on a node.
func signalAll(t testing.TB, node, name, signal string) {
	t.Helper()
	mustSandbox(t, "exec", node, "--", "sh", "-c",
		`for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = `+name+` ] && kill -`+signal+` ${p#/proc/}; done; true`)
}

// TestKubeletFrozen requires a quick finding for a node that no access method reaches. No object may wait for the
// kubelet's return.
func TestKubeletFrozen(t *testing.T) {
	slow(t)
	signalAll(t, "node-b", "kubelet", "STOP")
	t.Cleanup(func() { signalAll(t, "node-b", "kubelet", "CONT"); nodeReady(t, "node-b") })
	eventually(t, 90*time.Second, func() string { // the lease runs out
		d, _ := report(t, "run", "--node", "node-b", "--via", "api")
		for _, r := range d.of("node-lease") {
			if r.Status == probe.Fail {
				return ""
			}
		}
		return "the lease still runs"
	})
	d, a := report(t, "run", "--node", "node-b", "--via", "pod,ephemeral,exec")
	if a.exit != 3 {
		t.Errorf("exit %d\n%s", a.exit, a.stderr)
	}
	d.want(t, "node-lease", probe.Fail, "last renewed")
	d.want(t, "probe-placed", probe.Unknown, "pod: ", "kubelet of node-b did not start pod")
	d.want(t, "probe-placed", probe.Skip, "ephemeral: ", "kubelet")
	nothingLeft(t)
}

// TestRuntimeFrozen requires the report to name a runtime that accepts connections but never answers as what blocks the
// probe.
func TestRuntimeFrozen(t *testing.T) {
	slow(t)
	calicoReady(t, "node-b")
	thaw := func() { signalAll(t, "node-b", "containerd", "CONT"); nodeReady(t, "node-b") }
	t.Cleanup(thaw)
	signalAll(t, "node-b", "containerd", "STOP")
	// A kubelet that never answers is not slow: the run does not wait for a second pod.
	d, _ := report(t, "run", "--node", "node-b", "--via", "pod,ephemeral,exec")
	d.want(t, "probe-placed", probe.Unknown, "pod: ", "within 8")
	d.want(t, "probe-placed", probe.Unknown, "exec: ", "no reply in time (10s)")
	thaw() // 30 s after the freeze the kubelet knows, and so do we
	signalAll(t, "node-b", "containerd", "STOP")
	d, a := report(t, "run", "--node", "node-b", "--start-timeout", "10s", "--via", "pod,ephemeral,exec")
	if a.exit != 5 {
		t.Errorf("exit %d: %v\n%s", a.exit, d.Results, a.stderr)
	}
	d.want(t, "probe-placed", probe.Unknown, "pod: ", "within 10")
	d.want(t, "probe-placed", probe.Skip, "ephemeral: not tried: it takes the same")
	for _, r := range d.of("probe-placed") {
		if reason := r.Facts.Str(probe.FactReason); reason != "runtime" && reason != "kubelet" && reason != "silent" {
			t.Errorf("reason %v", r.Facts)
		}
	}
	signalAll(t, "node-b", "containerd", "CONT")
	nothingLeft(t)
}

// TestKubeletFreezesMidRun has a connection go silent. The client must notice the missing heartbeats, show the results
// so far, and leave nothing behind.
func TestKubeletFreezesMidRun(t *testing.T) {
	slow(t)
	mustSandbox(t, "felix", "node-a", "hang") // so that the run is still going on
	t.Cleanup(func() {
		signalAll(t, "node-a", "kubelet", "CONT")
		mustSandbox(t, "felix", "node-a", "ok")
		nodeReady(t, "node-a")
	})
	cmd, out := started(t, nil, "run", "--node", "node-a", "--via", "pod", "-o", "ndjson", "--check-timeout", "40s")
	waitFor(t, out, `"check":"node-swap"`)
	signalAll(t, "node-a", "kubelet", "STOP")
	waitFor(t, out, "no output from the probe for 15s")
	waitFor(t, out, `"type":"verdict"`)
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 5 {
		t.Errorf("exit %d, want 5", got)
	}
	signalAll(t, "node-a", "kubelet", "CONT")
	nothingLeft(t)
}

// TestSecondNIC gives a node the NIC of incident 003. The report must name it as Calico's next choice, with the setting
// that avoids it. Once registered, it must be reported as an address that other nodes cannot use.
func TestSecondNIC(t *testing.T) {
	slow(t)
	register := func(address string) {
		t.Helper()
		patch := `{"metadata":{"annotations":{"projectcalico.org/IPv4Address":"` + address + `"}}}`
		_, err := kube(t).CoreV1().Nodes().Patch(context.Background(), "node-a", types.MergePatchType, []byte(patch),
			metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		register("10.88.0.11/24")
		mustSandbox(t, "exec", "node-a", "--", "ip", "link", "del", "ens224")
	})
	mustSandbox(t, "exec", "node-a", "--", "sh", "-c", "ip link add ens224 type veth peer name ens224-far && ip addr add 10.0.0.66/24 dev ens224 && ip link set ens224 up")
	d, a := report(t, "run", "--node", "node-a", "--via", "pod", "--checks", "ip-autodetect,ip-registered")
	if a.exit != 3 {
		t.Errorf("exit %d\n%s", a.exit, a.stderr)
	}
	d.want(t, "ip-registered", probe.OK, "IPv4: registered 10.88.0.11/24 is the node's InternalIP")
	d.want(t, "ip-autodetect", probe.Fail, "IPv4: first-found picks 10.0.0.66 on ens224", "but 10.88.0.11 is registered")
	for _, r := range d.of("ip-autodetect") {
		if r.Status == probe.Fail && !slices.ContainsFunc(r.Lines, func(l string) bool {
			return strings.HasPrefix(l, "kubernetes-internal-ip would pick 10.88.0.11 on eth0 (veth)")
		}) {
			t.Errorf("the evidence does not say what would be right: %v", r.Lines)
		}
	}
	register("10.0.0.66/24") // as calico-node does within a minute
	d, _ = report(t, "run", "--node", "node-a", "--via", "pod", "--checks", "ip-autodetect,ip-registered")
	d.want(t, "ip-registered", probe.Fail, "IPv4: registered 10.0.0.66 is not the InternalIP 10.88.0.11", "1 of 1 other nodes are outside its network 10.0.0.0/24")
	d.want(t, "ip-autodetect", probe.Info, "IPv4: first-found picks 10.0.0.66", "not the node's InternalIP")
	d, _ = report(t, "run", "--node", "node-b", "--via", "pod", "--checks", "ip-registered,node-ping")
	d.want(t, "ip-registered", probe.Warn, "IPv4 node-a: node node-a is registered with 10.0.0.66")
	d.want(t, "node-ping", probe.Fail, "node-a 10.0.0.66: none of 5")
}

// TestDeadBIRD kills a node's BIRD. The node must report this, and the other node must report a peer whose machine
// answers but whose BIRD does not.
func TestDeadBIRD(t *testing.T) {
	slow(t)
	t.Cleanup(func() {
		mustSandbox(t, "exec", "node-a", "--", "rm", "/var/lib/calico/sandbox/bird.down")
		calicoReady(t, "node-a")
	})
	mustSandbox(t, "exec", "node-a", "--", "touch", "/var/lib/calico/sandbox/bird.down")
	signalAll(t, "node-a", "bird", "KILL")
	d, _ := report(t, "run", "--node", "node-a", "--via", "pod", "--checks", "bgp")
	d.want(t, "bird-socket", probe.Fail, "/run/calico/bird.ctl", "refuses connections")
	d.want(t, "bgp-port", probe.OK, "port 179 here") // BIRD for IPv6 lives
	d, _ = report(t, "run", "--node", "node-b", "--via", "pod", "--checks", "bgp")
	d.want(t, "bgp-session", probe.Fail, "node-a 10.88.0.11")
	d.want(t, "bgp-port", probe.Fail, "node-a 10.88.0.11", "refused: the host answers")
}
