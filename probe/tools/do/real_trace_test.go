//go:build e2e

package do

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/drops"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/netns"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// beyond are another host, and a route to it.
const beyond = `
mount --make-rprivate /
mount -t tmpfs tmpfs /run
ip netns add far
ip link set lo up
ip link add cali12 type veth peer name eth0 netns far
ip addr add 10.65.0.1/24 dev cali12
ip link set cali12 up
ip -n far link set lo up
ip -n far addr add 10.65.0.2/24 dev eth0
ip -n far link set eth0 up
ip netns exec far nft add table inet t
ip netns exec far nft add chain inet t c { type filter hook input priority 0 ; }
ip netns exec far nft add rule inet t c tcp dport 7 drop
nft add table inet t
nft add chain inet t c { type filter hook output priority 0 ; }
nft add rule inet t c tcp dport 9 counter drop
`

func traced(t *testing.T, args ...string) (probe.Result, string) {
	t.Helper()
	run := parsed(t, "drops", append([]string{"--trace"}, args...)...)
	var out bytes.Buffer
	r := run(t.Context(), &probe.Job{Host: &probe.Host{Root: "/", Proc: "/proc"}, Out: &out})
	t.Logf("%s\n%s", r.Saw, &out)
	return r, out.String()
}

// TestRealTrace checks for the path of packets, and the place where they are dropped.
func TestRealTrace(t *testing.T) {
	if !nstest.Enter(t, beyond) {
		return
	}
	r, said := traced(t, "10.65.0.2")
	wants(t, r, probe.OK, "17 of 17 echoes were answered")
	if !strings.Contains(said, "the pod: left cali12\n    namespace ") || !strings.Contains(said, "came in by cali12 → arrived") {
		t.Error(said)
	}
	r, _ = traced(t, "10.65.0.2:7")
	wants(t, r, probe.Fail, "4 of 4 connections were not opened", "dropped in INPUT at eth0 in namespace ", "NETFILTER_DROP", "a firewall rule")
	r, _ = traced(t, "10.65.0.2:9")
	wants(t, r, probe.Fail, "dropped in OUTPUT at cali12 in the pod", "by nftables, table inet t, chain c, rule 1")
	r, _ = traced(t, "10.65.0.2:8")
	wants(t, r, probe.Fail, "NO_SOCKET", "nothing listens")
	r, _ = traced(t, "10.65.0.77")
	wants(t, r, probe.Fail, "17 of 17 echoes", "NEIGH_FAILED", "does not answer ARP")
	r, _ = traced(t, "203.0.113.9")
	wants(t, r, probe.Fail, "no packet was created", "no route")
	if u, _ := traced(t, "127.0.0.1"); u.Status != probe.OK {
		t.Error(u)
	}
}

// TestRealTraceRefused checks that a probe without the rights reports what is missing, and the alternative.
func TestRealTraceRefused(t *testing.T) {
	if os.Getuid() == 0 {
		child := exec.Command("/proc/self/exe", "-test.run=^TestRealTraceRefused$")
		child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	r, _ := traced(t, "127.0.0.1")
	wants(t, r, probe.Skip, "the capabilities BPF and PERFMON", "'drops' without --trace")
}

// TestRealVXLANOfTheNode checks that a trace from inside a pod uses the node's own VXLAN port: the pod has no such
// interface.
func TestRealVXLANOfTheNode(t *testing.T) {
	const node = `
mount --make-rprivate /
mount -t tmpfs tmpfs /run
ip netns add node
ip -n node link add vxlan.calico type vxlan id 4096 dstport 8472
`
	if !nstest.Enter(t, node) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	sleeps := exec.CommandContext(t.Context(), "ip", "netns", "exec", "node", "sleep", "60")
	must.Do(t, sleeps.Start())
	t.Cleanup(func() { _ = sleeps.Process.Kill(); _ = sleeps.Wait() }) // killed
	var view *netns.View
	for end := time.Now().Add(10 * time.Second); view == nil && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		view, _ = netns.OfProcess(h, sleeps.Process.Pid) // nil until it has entered
	}
	if view == nil {
		t.Fatal("the process is not in the other namespace")
	}
	defer view.Close()
	own := drops.Space{Name: thePod, Host: h}
	if got := (tracing{in: []drops.Space{{Name: drops.Node, Host: h, View: view}, own}}).vxlan(); got != 8472 {
		t.Errorf("in a pod: %d", got)
	}
	if got := (tracing{in: []drops.Space{own}}).vxlan(); got != vxlanPort {
		t.Errorf("without an interface: %d", got)
	}
}
