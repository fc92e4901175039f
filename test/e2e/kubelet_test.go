//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/install"
	"github.com/calico-probe/calico-probe/probe"
)

// lineToJournal has journald run on a node and take what kubelet and containerd write from now on: as systemd has it,
// and as the nodes of a sandbox with Calico itself have it from their start.
const lineToJournal = `
for procs in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do # journald takes the unit from who is there
	[ ! -e $procs ] || echo $$ >$procs || true
done
mkdir -p /etc/systemd /var/log/journal /run/systemd/journal
printf '[Journal]\nStorage=persistent\nReadKMsg=no\nAudit=no\nRateLimitIntervalSec=0\n' >/etc/systemd/journald.conf
touch /run/systemd/journal/flushed
setsid /usr/lib/systemd/systemd-journald >/dev/null 2>&1 &
until [ -S /run/systemd/journal/stdout ]; do sleep 0.1; done
for unit in kubelet containerd; do
	tail -n0 -F LOGS/node-b-$unit.log 2>/dev/null | setsid perl -MIO::Socket::UNIX -e '
		$s = IO::Socket::UNIX->new(Peer => "/run/systemd/journal/stdout") or die $!;
		print $s "$ARGV[0]\n$ARGV[0].service\n6\n1\n0\n0\n0\n"; $s->flush;
		while (<STDIN>) { print $s $_; $s->flush }' $unit >/dev/null 2>&1 &
done`

// TestByKubelet queries a node's kubelet, also with a frozen runtime, when no pod starts and no container answers. It
// uses the services' log files, and node log query if the kubelet has it enabled.
func TestByKubelet(t *testing.T) {
	slow(t)
	const node = "node-b"
	logs := "/run/calico-probe-sandbox/" + clusterName + "/logs"
	nodeReady(t, node)
	shell(t, node, "for of in kubelet containerd; do ln -sf "+logs+"/"+node+"-$of.log /var/log/$of.log; done")
	t.Cleanup(func() { shell(t, node, "rm -f /var/log/kubelet.log /var/log/containerd.log") })
	before := state(t)

	d, a := report(t, "run", "--node", node, "--via", "kubelet")
	if a.exit != 0 || len(d.Methods) != 2 {
		t.Errorf("a healthy node: exit %d, ways %v: %v\n%s", a.exit, d.Methods, d.Results, a.stderr)
	}
	d.want(t, "probe-placed", probe.OK, "kubelet: the kubelet answers after ", ": nothing was created")
	for _, id := range []string{"node-disk", "node-memory"} {
		d.want(t, id, probe.OK)
	}
	d.want(t, "kubelet-health", probe.OK, "healthz: 200")
	for _, id := range []string{"daemon-log", "calico-log", "calico-errors", "node-swap"} {
		if got := d.of(id); len(got) == 0 || got[0].Status == probe.Unknown || got[0].Status == probe.Skip {
			t.Errorf("%s: %v", id, got)
		}
	}
	t.Run("refused", func(t *testing.T) { kubeletRefused(t, node) })

	t.Run("frozen", func(t *testing.T) { kubeletOfFrozen(t, node) })
	t.Run("by node log query", func(t *testing.T) {
		kubeletWith(t, node, "enableSystemLogQuery: true\nmaxPods: 109", func(n *corev1.Node) bool {
			return n.Status.Allocatable.Pods().Value() == 109
		})
		t.Cleanup(func() {
			shell(t, node, "pkill -x perl; pkill -x tail; pkill -x systemd-journal; rm -rf /var/log/journal /run/systemd/journal; true")
		})
		shell(t, node, "rm -f /var/log/kubelet.log /var/log/containerd.log\n"+strings.ReplaceAll(lineToJournal, "LOGS", logs))
		if a := call(t, "preflight", "--node", node, "--via", "kubelet"); a.exit != 0 || strings.Contains(a.stdout, "warn") {
			t.Errorf("preflight: exit %d: %s%s", a.exit, a.stdout, a.stderr)
		}
		kubeletOfFrozen(t, node)
	})
	if after := state(t); after != before {
		t.Errorf("something was made: %s, before %s", after, before)
	}
}

// kubeletRefused asks without the right, and a kubelet that is not there.
func kubeletRefused(t *testing.T, node string) {
	kubectl(t, call(t, "manifests", "--methods", "api", "--user", "reader-only").stdout,
		"apply", "--server-side", "-f", "-")
	eventually(t, time.Minute, func() string { // the authoriser's cache learns of it
		d, a := report(t, "run", "--node", node, "--via", "kubelet", "--as", "reader-only", "-n", install.Namespace)
		placed := d.of("probe-placed")
		if a.exit != 5 || len(placed) == 0 || !strings.Contains(placed[0].Saw, "no right to get nodes/proxy") {
			return fmt.Sprintf("exit %d: %v%s", a.exit, d.Results, a.stderr)
		}
		return ""
	})
	signalAll(t, node, "kubelet", "STOP")
	t.Cleanup(func() { signalAll(t, node, "kubelet", "CONT"); nodeReady(t, node) })
	d, a := report(t, "run", "--node", node, "--via", "kubelet", "--timeout", "30s")
	d.want(t, "probe-placed", probe.Unknown, "kubelet: the kubelet does not answer through the API server")
	if a.exit == 0 {
		t.Errorf("a frozen kubelet: exit %d after %v", a.exit, a.took)
	}
}

// kubeletOfFrozen freezes containerd, and requires the kubelet's message about it.
func kubeletOfFrozen(t *testing.T, node string) {
	signalAll(t, node, "containerd", "STOP")
	t.Cleanup(func() { signalAll(t, node, "containerd", "CONT"); nodeReady(t, node) })
	eventually(t, 3*time.Minute, func() string {
		d, a := report(t, "run", "--node", node, "--via", "kubelet")
		for _, r := range d.of("daemon-log") {
			if r.Target == "kubelet" && r.Status == probe.Warn && strings.Contains(r.Saw, "container runtime is down") {
				d.want(t, "kubelet-health", probe.Warn, "container runtime: ")
				d.want(t, "node-memory", probe.OK)
				if d.first().ID != "runtime-stuck" {
					t.Errorf("%q after %v: %v", d.first().ID, a.took, d.Results)
				}
				return ""
			}
		}
		return fmt.Sprintf("the kubelet says nothing of it yet: %v\n%s", d.of("daemon-log"), a.stderr)
	})
}
