//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/calico-probe/calico-probe/probe"
)

// sshPort is where a second sshd listens on a node.
const sshPort = "2222"

// sshdOn starts a second sshd on a node, with more to its configuration, and gives the flags
// with which the client's ssh gets to it. Edits change the client's configuration.
func sshdOn(t testing.TB, node, more string, edits ...string) []string {
	t.Helper()
	shell(t, node, fmt.Sprintf(`sed -e /Listen/d -e /PidFile/d /etc/ssh/sshd_config >/run/sshd-e2e
cat >>/run/sshd-e2e <<'END'
Port %s
PidFile /run/sshd-e2e.pid
%s
END
/opt/sandbox/openssh-server/usr/sbin/sshd -f /run/sshd-e2e </dev/null >/dev/null 2>&1
while [ ! -e /run/sshd-e2e.pid ]; do sleep 0.1; done`, sshPort, more))
	t.Cleanup(func() {
		shell(t, node, "kill $(cat /run/sshd-e2e.pid); while [ -e /run/sshd-e2e.pid ]; do sleep 0.1; done; rm /run/sshd-e2e")
	})
	return bySSH(t, append([]string{
		"User root\n", "User root\n  Port " + sshPort + "\n  HostKeyAlias " + addresses[node] + "\n",
	}, edits...)...)
}

// byWayOf is a ProxyCommand that writes to a file before it goes on as the one there was.
func byWayOf(words, file string) string {
	return `ProxyCommand sh -c 'echo "` + words + `" >>` + file + `; exec "$0" "$@"' `
}

// addresses are those of the sandbox's nodes.
var addresses = map[string]string{"node-a": "10.88.0.11", "node-b": "10.88.0.12"}

// placedBy gives the reason and the words of the one result about an access method, and
// fails where anything else came by that way.
func placedBy(t testing.TB, d document, way string) (reason, saw string) {
	t.Helper()
	for _, r := range d.Results {
		switch {
		case r.Method != way:
		case r.Check == "probe-placed" && saw == "":
			reason, saw = r.Facts.Str(probe.FactReason), r.Saw
		default:
			t.Errorf("by %s came %v", way, r)
		}
	}
	return reason, saw
}

// TestFloodWhileBringing has a node print without end, often without a newline, during the probe's upload. The client
// must stop early, with one sentence and little memory.
func TestFloodWhileBringing(t *testing.T) {
	flood := func(t *testing.T, says string, args ...string) {
		t.Helper()
		a := measure(t, append(args, "-o", "json")...).wait(t)
		var d document
		if err := json.Unmarshal([]byte(a.stdout), &d); err != nil {
			t.Fatalf("%v\n%s%s", err, a.stdout, a.stderr)
		}
		d.want(t, "probe-placed", probe.Unknown, says, "prints endlessly")
		if a.exit != 5 || a.stderr != "" {
			t.Errorf("exit %d\n%s", a.exit, a.stderr)
		}
		nothingLeft(t)
	}
	for name, command := range map[string]string{
		"no newline": "tr '\\0' x </dev/zero", "lines": "yes welcome", "stderr": "yes welcome >&2",
	} {
		t.Run("ssh: "+name, func(t *testing.T) {
			flags := sshdOn(t, "node-a", "ForceCommand "+command)
			flood(t, "ssh to 10.88.0.11: more than 1 MiB came back before the probe started", append(flags, "run", "--node", "node-a", "--via", "ssh")...)
		})
	}
	t.Run("exec", func(t *testing.T) {
		execTarget(t)
		inTarget(t, `mkdir -p /tmp; cp /usr/bin/dash /tmp/shell
printf '#!/tmp/shell\nexec /usr/bin/tr "\\0" x </dev/zero\n' >/tmp/flood; chmod 755 /tmp/flood
mount --bind /tmp/flood /usr/bin/sh; mount --bind /tmp/flood /bin/sh`)
		flood(t, "more than 1 MiB came back before the probe started", "run", "--node", "node-b", "--via", "exec")
	})
}

// inTarget runs a script in the mount namespace of the container that execTarget makes.
func inTarget(t testing.TB, script string) {
	t.Helper()
	pods, err := kube(t).CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if strings.HasPrefix(p.Name, "e2e-target") {
			shell(t, "node-b", fmt.Sprintf(`for p in /proc/[0-9]*; do
if tr - _ <$p/cgroup | grep -q %s && [ "$(readlink $p/root/usr/bin/sh)" ] && [ "$(cat $p/comm)" != pause ]; then exec nsenter -t ${p#/proc/} -m sh -ec '%s'; fi
done; exit 1`, strings.ReplaceAll(string(p.UID), "-", "_"), strings.ReplaceAll(script, "'", `'\''`)))
			return
		}
	}
	t.Fatal("there is no target")
}

// TestSSHGivesNothingAway requires that ssh sends no user environment, shares no connection and runs no local command,
// regardless of the user's configuration. It must still respect the user's settings for reaching the host.
func TestSSHGivesNothingAway(t *testing.T) {
	dir := t.TempDir()
	control, touched, dialled := filepath.Join(dir, "control"), filepath.Join(dir, "touched"), filepath.Join(dir,
		"dialled")
	flags := sshdOn(t, "node-a", "AcceptEnv *\nForceCommand env >>/run/sshd-e2e.env; exec sh -c \"$SSH_ORIGINAL_COMMAND\"",
		"IdentitiesOnly yes", fmt.Sprintf("IdentitiesOnly yes\n  SendEnv SECRET_* LANG\n  SetEnv CONFIGURED=secret\n  ControlMaster auto\n  ControlPath %s\n  ControlPersist 5\n  PermitLocalCommand yes\n  LocalCommand touch %s", control, touched),
		"ProxyCommand ", byWayOf("${SECRET_TOKEN:-none} ${KEPT_TOKEN:-none}", dialled))
	t.Cleanup(func() { shell(t, "node-a", "rm -f /run/sshd-e2e.env") })
	cmd := client(t, append(flags, "run", "--node", "node-a", "--via", "ssh", "--checks", "node-swap")...)
	cmd.Env = append(os.Environ(), "SECRET_TOKEN=hunter2", "KEPT_TOKEN=kept", "LANG=xx_YY.UTF-8")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	seen := mustSandbox(t, "exec", "node-a", "--", "cat", "/run/sshd-e2e.env")
	for _, text := range []string{"hunter2", "CONFIGURED", "xx_YY"} {
		if strings.Contains(seen, text) {
			t.Errorf("the node was given %s:\n%s", text, seen)
		}
	}
	if !strings.Contains(seen, "SSH_CONNECTION=") || !strings.Contains(seen, "LC_ALL=C") {
		t.Errorf("this sshd tells nothing of what it is given:\n%s", seen)
	}
	for _, name := range []string{control, touched} {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("there is %s", name)
		}
	}
	if by, err := os.ReadFile(dialled); err != nil || string(by) != "none kept\n" {
		t.Errorf("the user's ProxyCommand: %q %v", by, err)
	}
	nothingLeft(t)
}

// TestHostileNodeAddress has the Node object name the ssh destination. Only an IP address may be used, and another
// machine's address must give no answer for the node.
func TestHostileNodeAddress(t *testing.T) {
	nodes := kube(t).CoreV1().Nodes()
	signalAll(t, "node-b", "kubelet", "STOP") // which would write its own
	was, err := nodes.Get(t.Context(), "node-b", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	says := func(ctx context.Context, addresses []corev1.NodeAddress) error {
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"addresses": addresses}})
		if err == nil {
			_, err = nodes.Patch(ctx, "node-b", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		}
		return err
	}
	t.Cleanup(func() {
		if err := says(context.Background(), was.Status.Addresses); err != nil {
			t.Error(err)
		}
		signalAll(t, "node-b", "kubelet", "CONT")
		nodeReady(t, "node-b")
	})
	dir := t.TempDir()
	touched, went := filepath.Join(dir, "touched"), filepath.Join(dir, "went")
	flags := bySSH(t, "ProxyCommand ", byWayOf("%r@%h", went))
	for _, address := range []string{"root@10.88.0.11", "-oProxyCommand=touch " + touched, "\x1b[2J\x1b]0;owned\a10.88.0.12", "127.0.0.1"} {
		if err := says(t.Context(), []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}); err != nil {
			t.Fatal(err)
		}
		a := call(t, append(flags, "run", "--node", "node-b", "--via", "ssh", "--checks", "node-swap")...)
		if a.exit == 0 || strings.Contains(a.stdout+a.stderr, "\x1b") ||
			!strings.Contains(a.folded(), "node node-b has no valid InternalIP in the API") {
			t.Errorf("%q: exit %d\n%q\n%q", address, a.exit, a.stdout, a.stderr)
		}
		p := call(t, append(flags, "preflight", "--node", "node-b", "--via", "ssh")...)
		if p.exit != 3 || strings.Contains(p.stdout+p.stderr, "\x1b") ||
			!strings.Contains(p.folded(), "has no valid InternalIP") {
			t.Errorf("%q: preflight: exit %d\n%q\n%q", address, p.exit, p.stdout, p.stderr)
		}
	}
	for _, name := range []string{touched, went} {
		if text, err := os.ReadFile(name); err == nil {
			t.Errorf("ssh was started: %s", text)
		}
	}
	if err := says(t.Context(), []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: addresses["node-a"]},
	}); err != nil {
		t.Fatal(err)
	}
	d, a := report(t, append(flags, "run", "--node", "node-b", "--via", "ssh", "--checks", "node-swap")...)
	if reason, saw := placedBy(t, d, "ssh"); reason != "machine" || !strings.Contains(saw, "ssh reached another machine: its machine-id is not that of node-b") {
		t.Errorf("exit %d: %s %q\n%s", a.exit, reason, saw, a.stderr)
	}
	if text, err := os.ReadFile(went); err != nil || string(text) != "root@"+addresses["node-a"]+"\n" {
		t.Errorf("ssh went to %q: %v", text, err)
	}
	nothingLeft(t)
}

// TestMachine gives a machine another machine-id than the Node. No access method that compares IDs may answer. Without
// a machine-id, ssh may answer only if the user named the machine.
func TestMachine(t *testing.T) {
	d, a := report(t, append(bySSH(t), "run", "--node", "node-b", "--via", "ssh", "--ssh", "node-a", "--checks",
		"node-swap")...)
	if reason, saw := placedBy(t, d, "ssh"); a.exit != 5 || reason != "machine" ||
		!strings.Contains(saw, "see where node-a leads") {
		t.Errorf("exit %d: %s %q\n%s", a.exit, reason, saw, a.stderr)
	}
	execTarget(t)
	shell(t, "node-b", "mv /etc/machine-id /etc/machine-id.away")
	t.Cleanup(func() { shell(t, "node-b", "mv /etc/machine-id.away /etc/machine-id") })
	run := []string{"run", "--node", "node-b", "--checks", "node-swap"}
	d, a = report(t, append(bySSH(t), append(run, "--via", "ssh")...)...)
	if reason, saw := placedBy(t, d, "ssh"); a.exit != 5 || reason != "machine" || !strings.Contains(saw, "its machine-id is not readable, so it cannot be identified as node-b") {
		t.Errorf("exit %d: %s %q\n%s", a.exit, reason, saw, a.stderr)
	}
	d, a = report(t, append(bySSH(t), append(run, "--via", "ssh", "--ssh", "root@{node}")...)...)
	if a.exit != 0 || strings.Count(a.stderr, "\n") != 1 || !strings.Contains(a.stderr, "its machine-id is not readable: only your --ssh identifies root@node-b as node-b") {
		t.Errorf("exit %d\n%s", a.exit, a.stderr)
	}
	d.want(t, "node-swap", probe.OK)
	if d, a = report(t, append(run, "--via", "exec")...); a.exit != 0 || a.stderr != "" {
		t.Errorf("exit %d\n%s", a.exit, a.stderr)
	}
	d.want(t, "node-swap", probe.OK)

	shell(t, "node-b", "echo 00112233445566778899aabbccddeeff >/etc/machine-id") // that the kubelet has read already
	d, a = report(t, append(run, "--via", "exec")...)
	if reason, saw := placedBy(t, d, "exec"); a.exit != 5 || reason != "machine" || !strings.Contains(saw, "its machine-id is not that of node-b") {
		t.Errorf("exit %d: %s %q\n%s", a.exit, reason, saw, a.stderr)
	}
	nothingLeft(t)
}
