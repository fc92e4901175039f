//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
)

// shell runs a script on a node.
func shell(t testing.TB, node, script string) {
	t.Helper()
	mustSandbox(t, "exec", node, "--", "sh", "-ec", script)
}

// locally runs the client on the node itself, which works whatever is broken
// there. The script comes before it.
func locally(t testing.TB, node, script, ids string) document {
	t.Helper()
	binary, err := os.Open(file("bin/calico-probe"))
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, file("bin/sandbox"), "exec", "--name", clusterName, node, "--", "sh", "-c",
		script+"\nunset CALICO_PROBE_DEFAULTS\ncat >/run/calico-probe; chmod +x /run/calico-probe; /run/calico-probe run --via local -o json --checks "+ids)
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stderr = binary, &errs
	out, _ := cmd.Output() // it fails when a fault is found, and the report says so
	var d document
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatalf("no JSON report from %s: %v\n%s\n%s", node, err, out, errs.Bytes())
	}
	return d
}

// TestFrozenDaemons freezes every daemon of a node. The client on the node must name each, because no access method can
// place a probe.
func TestFrozenDaemons(t *testing.T) {
	slow(t)
	const node, all = "node-a", "felix-live,felix-ready,bird-socket,bgp-session,containerd-health,cri-health,kubelet-health,kubeproxy-health"
	daemons := []string{"kubelet", "kube-proxy", "containerd", "bird", "bird6", "calico-node"}
	for _, r := range locally(t, node, "", all).Results {
		if r.Status != probe.OK {
			t.Errorf("on a healthy node: %v", r)
		}
	}
	t.Cleanup(func() {
		for _, name := range daemons {
			signalAll(t, node, name, "CONT")
		}
		nodeReady(t, node)
	})
	for _, name := range daemons { // the kubelet first: it would start calico-node anew
		signalAll(t, node, name, "STOP")
	}
	d := locally(t, node, "", all)
	for check, saw := range map[string]string{
		"felix-live": "no answer from 127.0.0.1:9099", "felix-ready": "no answer from 127.0.0.1:9099", "kubeproxy-health": "no answer from 127.0.0.1:10256",
		"cri-health": "does not answer within", "containerd-health": "does not answer within",
	} {
		d.want(t, check, probe.Fail, saw)
	}
	for _, part := range []string{"healthz", "api"} {
		d.want(t, "kubelet-health", probe.Fail, part+": no answer from 127.0.0.1:")
	}
	for _, socket := range []string{"bird.ctl", "bird6.ctl"} {
		d.want(t, "bird-socket", probe.Fail, socket, "does not answer")
	}
	d.want(t, "bgp-session", probe.Skip, "bird-socket did not pass")
}

// TestFlushedServices removes kube-proxy's rules, like a firewall reload. Services must be reported as unreachable
// while their endpoints answer.
func TestFlushedServices(t *testing.T) {
	slow(t)
	const node = "node-a"
	t.Cleanup(func() {
		signalAll(t, node, "kube-proxy", "KILL") // it starts anew, with all its rules
		eventually(t, 30*time.Second, func() string { return notOK(t, node, "datastore-latency,dns-cluster,kubeproxy-health") })
	})
	const flush = "nft delete table ip kube-proxy || true; nft delete table ip6 kube-proxy || true"
	eventually(t, time.Minute, func() string { // it may just be writing
		for _, r := range locally(t, node, flush, "kubeproxy-health").of("kubeproxy-health") {
			if r.Status == probe.Fail && strings.Contains(r.Saw, "reports healthy in mode nftables, but there is no table kube-proxy in nftables") {
				return ""
			}
		}
		return "kubeproxy-health has not missed the rules"
	})
	signalAll(t, node, "kube-proxy", "STOP") // it would put them back
	shell(t, node, flush)
	d, _ := report(t, "run", "--node", node, "--via", "pod", "--checks", "datastore-latency,dns-cluster")
	d.want(t, "datastore-latency", probe.Fail, "service 10.96.0.1:443: ")
	d.want(t, "datastore-latency", probe.OK, "endpoint 10.88.0.1:6443: ")
	for _, network := range []string{" udp: ", " tcp: "} {
		d.want(t, "dns-cluster", probe.Fail, "service 10.96.0.10:53"+network)
		d.want(t, "dns-cluster", probe.OK, "endpoint ", network)
	}
}

// notOK names the first answer of some checks that is not ok.
func notOK(t testing.TB, node, ids string) string {
	t.Helper()
	d, a := report(t, "run", "--node", node, "--via", "pod", "--checks", ids)
	for _, r := range d.Results {
		if r.Status != probe.OK && r.Check != "probe-placed" {
			return r.String()
		}
	}
	if len(d.Results) == 0 {
		return a.stderr
	}
	return ""
}

// TestDroppedPackets drops a check's packets on one node, one kind and direction at a time, and forces its BGP session
// to reconnect.
func TestDroppedPackets(t *testing.T) {
	slow(t)
	const node, other = "node-b", "node-a"
	t.Cleanup(func() {
		shell(t, node, "nft delete table inet drops")
		nodeReady(t, node)
		nodeReady(t, other)
	})
	shell(t, node, `nft -f - <<EOF
table inet drops {
  chain out {
    type filter hook output priority 10;
    ip daddr 10.88.0.11 tcp dport 179 drop
    ip daddr 10.88.0.1 tcp dport 6443 ct state new drop
    tcp dport 53 reject with tcp reset
    ip daddr 10.244.0.0/16 icmp type echo-request drop
  }
  chain in {
    type filter hook input priority 10;
    icmpv6 type echo-reply drop
    udp sport 53 drop
  }
}
EOF`)
	signalAll(t, other, "bird", "KILL") // it starts again, and waits: the larger address dials
	eventually(t, time.Minute, func() string {
		for _, r := range locally(t, node, "", "bgp-session").of("bgp-session") {
			if r.Facts.Str(bgp.FactBGPState) == "Connect" {
				return ""
			}
		}
		return "no session is at Connect"
	})
	d, _ := report(t, "run", "--node", node, "--via", "pod", "--checks", "bgp-session,bgp-port,datastore-latency,dns-cluster,pod-ping,node-ping")
	d.want(t, "bgp-session", probe.Fail, "node-a 10.88.0.11", "Connect")
	d.want(t, "bgp-session", probe.OK, "node-a fd00:10:88::11", "Established")
	d.want(t, "bgp-port", probe.Fail, "node-a 10.88.0.11", "got no answer within")
	d.want(t, "datastore-latency", probe.Fail, "endpoint 10.88.0.1:6443", "no answer")
	d.want(t, "datastore-latency", probe.Fail, "service 10.96.0.1:443", "no answer")
	d.want(t, "dns-cluster", probe.Fail, "service 10.96.0.10:53 udp", "no answer")
	d.want(t, "dns-cluster", probe.Fail, "service 10.96.0.10:53 tcp", "refused")
	d.want(t, "pod-ping", probe.Fail, "default/workload-a 10.244.", "rejected locally")
	d.want(t, "pod-ping", probe.Fail, "default/workload-a fd00:", "none of 5")
	d.want(t, "node-ping", probe.OK, "node-a 10.88.0.11")
	d.want(t, "node-ping", probe.Fail, "node-a fd00:10:88::11", "none of 5")
}

// TestClusterDNS gives one node's kubelet another cluster domain than CoreDNS serves, and freezes CoreDNS on the other
// node.
func TestClusterDNS(t *testing.T) {
	slow(t)
	pods, err := kube(t).CoreV1().Pods("kube-system").List(t.Context(),
		metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("CoreDNS: %v, %d pods", err, len(pods.Items))
	}
	node := pods.Items[0].Spec.NodeName
	asker := map[string]string{"node-a": "node-b", "node-b": "node-a"}[node]
	wanted := func(domain, endpoint string, service ...string) {
		t.Helper()
		shell(t, asker, "sed -i 's/clusterDomain: .*/clusterDomain: "+domain+"/' /var/lib/kubelet/config.yaml")
		d, _ := report(t, "run", "--node", asker, "--via", "pod", "--checks", "dns-cluster")
		for _, network := range []string{" udp: ", " tcp: "} {
			d.want(t, "dns-cluster", probe.Fail, "endpoint "+pods.Items[0].Status.PodIP+":53"+network, endpoint)
			for _, saw := range service {
				d.want(t, "dns-cluster", probe.Fail, "service 10.96.0.10:53"+network, saw)
			}
		}
	}
	t.Cleanup(func() {
		shell(t, asker, "sed -i 's/clusterDomain: .*/clusterDomain: cluster.local/' /var/lib/kubelet/config.yaml")
		signalAll(t, node, "coredns", "CONT")
		eventually(t, 30*time.Second, func() string { return notOK(t, asker, "dns-cluster") })
	})
	wanted("east.cluster.local", "it answers NXDOMAIN", "it answers NXDOMAIN")
	wanted("example.org", "it answers SERVFAIL", "it answers SERVFAIL")
	signalAll(t, node, "coredns", "STOP")
	wanted("cluster.local", "no answer") // the service has no endpoint any more, or still this one
}

// TestRoutes removes the routes to another node's pods: one family by a blackhole, the other by deletion. The BIRDs
// that would restore them are frozen.
func TestRoutes(t *testing.T) {
	slow(t)
	const node, block, block6 = "node-a", "10.244.218.64/26", "fd00:10:244::da40/122"
	t.Cleanup(func() {
		shell(t, node, "ip route del blackhole "+block+" || true") // BIRD would keep it
		for _, name := range []string{"bird", "bird6"} {
			signalAll(t, node, name, "CONT")
		}
		eventually(t, 30*time.Second, func() string { return notOK(t, node, "route-blocks,pod-ping") })
		nodeReady(t, node)
	})
	for _, name := range []string{"bird", "bird6"} {
		signalAll(t, node, name, "STOP")
	}
	shell(t, node, "ip route replace blackhole "+block+"; ip -6 route del "+block6)
	d, _ := report(t, "run", "--node", node, "--via", "pod", "--checks", "route-blocks,route-can-reach,pod-ping,node-ping")
	d.want(t, "route-blocks", probe.Fail, "IPv4: ", "a blackhole route on this node drops packets to", ": "+block+" of node-b")
	d.want(t, "route-blocks", probe.Fail, "IPv6: ", "no route: "+block6+" of node-b")
	d.want(t, "route-can-reach", probe.Fail, "default/workload-b 10.244.", "blackhole")
	d.want(t, "route-can-reach", probe.Info, "default/workload-b fd00:", "only the default route")
	d.want(t, "pod-ping", probe.Fail, "default/workload-b 10.244.", "blackhole")
	d.want(t, "node-ping", probe.OK, "node-b 10.88.0.12")
}

// TestMainRule removes the kernel's IPv6 rule for table main, which matters once another rule exists.
func TestMainRule(t *testing.T) {
	const node, rule, other = "node-a", "pref 32766 lookup main", "pref 99 fwmark 0x99 lookup 99"
	t.Cleanup(func() { shell(t, node, "ip -6 rule add "+rule+"; ip -6 rule del "+other) })
	shell(t, node, "ip -6 rule add "+other+" && ip -6 rule del "+rule)
	d, _ := report(t, "run", "--node", node, "--via", "pod", "--checks", "route-rules")
	d.want(t, "route-rules", probe.Fail, "IPv6: no routing rule selects table main")
	d.want(t, "route-rules", probe.OK, "IPv4: only the kernel's rules")
	if len(d.Causes) == 0 || d.Causes[0].ID != "main-rule-missing" || d.Causes[0].About != "IPv6" {
		t.Errorf("the causes are %+v", d.Causes)
	}
}

// TestNodesFiles creates files on a node as people and programs leave them there.
func TestNodesFiles(t *testing.T) {
	slow(t)
	const node, all = "node-a", "felix-live,cni-config,cni-nodename,cni-token,ipam-files,node-swap,node-disk"
	token := realToken(t)
	d := locally(t, node, cniKubeconfig(token), all)
	d.want(t, "felix-live", probe.OK, "127.0.0.1:9099")
	d.want(t, "cni-config", probe.OK, "10-calico.conflist is used")
	d.want(t, "cni-nodename", probe.OK, `"node-a"`)
	d.want(t, "cni-token", probe.OK, "valid for")
	d.want(t, "ipam-files", probe.OK)
	d.want(t, "node-swap", probe.OK)
	d.want(t, "node-disk", probe.OK, "/: ")

	t.Cleanup(func() {
		shell(t, node, `
rm -rf /etc/cni/net.d/05-bridge.conf /etc/cni/net.d/calico-kubeconfig /var/lib/cni/networks/k8s-pod-network /etc/fstab /etc/systemd/system/swapfile.swap
echo node-a >/var/lib/calico/nodename
sed -i 's/failSwapOn: true/failSwapOn: false/' /var/lib/kubelet/config.yaml
sed -i '/^192.0.2.7 /d' /etc/hosts
umount /var/lib/docker /var/lib/containers
rmdir /var/lib/docker /var/lib/containers`)
		nodeReady(t, node)
	})
	d = locally(t, node, cniKubeconfig(agedBy(t, token, time.Hour))+`
echo '{"cniVersion":"0.4.0","name":"old","type":"bridge"}' >/etc/cni/net.d/05-bridge.conf
echo node-a.example.com >/var/lib/calico/nodename
mkdir -p /var/lib/cni/networks/k8s-pod-network
echo f3c1 >/var/lib/cni/networks/k8s-pod-network/10.200.0.5
echo '/dev/sda3 none swap sw 0 0' >/etc/fstab
mkdir -p /etc/systemd/system
touch /etc/systemd/system/swapfile.swap
sed -i 's/failSwapOn: false/failSwapOn: true/' /var/lib/kubelet/config.yaml
sed -i '1i 192.0.2.7 localhost' /etc/hosts
mkdir /var/lib/docker /var/lib/containers
mount -t tmpfs -o size=1m,nr_inodes=20 tmpfs /var/lib/containers
touch $(seq -f /var/lib/containers/%g 19)
mount -t tmpfs -o size=1m tmpfs /var/lib/docker
mount -o remount,ro /var/lib/docker
`, all)
	d.want(t, "felix-live", probe.Fail, "localhost resolves to 192.0.2.7, not to a loopback address")
	d.want(t, "felix-live", probe.OK, "127.0.0.1:9099")
	d.want(t, "cni-config", probe.Fail, "05-bridge.conf comes first and names bridge", "10-calico.conflist is not used")
	d.want(t, "cni-nodename", probe.Fail, `"node-a.example.com", but Kubernetes calls this node "node-a"`)
	d.want(t, "cni-token", probe.Fail, "the token expired")
	d.want(t, "ipam-files", probe.Warn, "1 addresses")
	d.want(t, "node-swap", probe.Warn, "returns at the next reboot", "/etc/fstab line 1 (/dev/sda3)", "/etc/systemd/system/swapfile.swap")
	d.want(t, "node-disk", probe.Fail, "/var/lib/containers: ", " 0 % of the inodes")
	d.want(t, "node-disk", probe.Fail, "/var/lib/docker: read-only")

	d = locally(t, node, `
rm -rf /etc/cni/net.d/05-bridge.conf /opt/cni/bin/portmap /var/lib/calico/nodename
cd /var/lib/cni/networks/k8s-pod-network
flock lock sleep 5 </dev/null >/dev/null 2>&1 &
until [ -e lock ] && ! flock -n lock true; do sleep .01; done`, all)
	shell(t, node, "ln -s /usr/lib/cni/portmap /opt/cni/bin/portmap")
	d.want(t, "cni-config", probe.Fail, "not in /opt/cni/bin: portmap")
	d.want(t, "cni-nodename", probe.Fail, "no /var/lib/calico/nodename")
	d.want(t, "ipam-files", probe.Fail, "is held by process", "upgrade-ipam waits")
}

// cniKubeconfig is a script that writes what install-cni writes.
func cniKubeconfig(token string) string {
	return "cat >/etc/cni/net.d/calico-kubeconfig <<EOF\nusers: [{name: calico, user: {token: " + token + "}}]\nEOF\n"
}

// realToken is one that the API server gives for a service account.
func realToken(t testing.TB) string {
	t.Helper()
	ask := &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600 * 3))}}
	given, err := kube(t).CoreV1().ServiceAccounts("kube-system").CreateToken(t.Context(), "calico-node", ask,
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return given.Status.Token
}

// agedBy returns a token that looks expired for this long. A test cannot wait for expiry: the API server issues tokens
// for at least ten minutes.
func agedBy(t testing.TB, token string, ago time.Duration) string {
	t.Helper()
	parts := strings.Split(token, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	claims := map[string]any{}
	if err == nil {
		err = json.Unmarshal(payload, &claims)
	}
	if err != nil {
		t.Fatal(err)
	}
	claims["exp"], claims["iat"], claims["nbf"] = time.Now().Add(-ago).Unix(), time.Now().Add(-25*ago).Unix(),
		time.Now().Add(-25*ago).Unix()
	if payload, err = json.Marshal(claims); err != nil {
		t.Fatal(err)
	}
	parts[1] = base64.RawURLEncoding.EncodeToString(payload)
	return strings.Join(parts, ".")
}

// TestSwapOn enables swap, which affects the whole machine, for one run.
func TestSwapOn(t *testing.T) {
	slow(t)
	dir, err := os.MkdirTemp(file(".cache"), "swap") // on a disk, which /tmp need not be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	swap := filepath.Join(dir, "swap")
	for _, args := range [][]string{
		{"dd", "if=/dev/zero", "of=" + swap, "bs=1M", "count=1", "status=none"}, {"chmod", "600", swap},
		{"mkswap", "-q", swap}, {"swapon", swap},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	off := func() {
		if out, err := exec.Command("swapoff", swap).CombinedOutput(); err != nil {
			t.Errorf("swapoff %s: %v: %s", swap, err, out)
		}
	}
	t.Cleanup(off)
	d := locally(t, "node-a", "", "node-swap")
	d.want(t, "node-swap", probe.Info, "swap is on, and the kubelet accepts it")
	const set = "sed -i 's/failSwapOn: .*/failSwapOn: %/' /var/lib/kubelet/config.yaml"
	t.Cleanup(func() { shell(t, "node-a", strings.ReplaceAll(set, "%", "false")) })
	d = locally(t, "node-a", strings.ReplaceAll(set, "%", "true"), "node-swap")
	d.want(t, "node-swap", probe.Fail, "the kubelet does not start with swap")
}

// TestNoNetworkConfiguration removes Calico's CNI file. The report must name the effect at every place where it shows.
func TestNoNetworkConfiguration(t *testing.T) {
	slow(t)
	const node, file = "node-b", "/etc/cni/net.d/10-calico.conflist"
	t.Cleanup(func() {
		shell(t, node, "cat /root/away >"+file) // containerd overlooks a file that is moved there
		nodeReady(t, node)
	})
	shell(t, node, "mv "+file+" /root/away")
	eventually(t, time.Minute, func() string {
		d, _ := report(t, "run", "--node", node, "--via", "api", "--checks", "node-ready,node-taints")
		for _, r := range d.of("node-taints") {
			if r.Status == probe.Warn {
				return ""
			}
		}
		return "the node has no taint yet"
	})
	d, _ := report(t, "run", "--node", node, "--via", "pod", "--checks", "node-ready,node-taints,cni-config,cri-health,containerd-health,kubelet-health")
	d.want(t, "node-ready", probe.Fail, "KubeletNotReady", "cni plugin not initialized")
	d.want(t, "node-taints", probe.Warn, "node.kubernetes.io/not-ready:NoSchedule")
	d.want(t, "cni-config", probe.Fail, "no network configuration in /etc/cni/net.d")
	d.want(t, "containerd-health", probe.Fail, "cri-status: ", "NetworkReady is false")
	d.want(t, "kubelet-health", probe.OK, "healthz: 200")
}

// TestKilledWhileStarting freezes a calico-node right after its start, so that the kubelet kills it when the liveness
// probe's budget is used up.
func TestKilledWhileStarting(t *testing.T) {
	slow(t)
	const node = "node-b"
	sets, pods := kube(t).AppsV1().DaemonSets("kube-system"), kube(t).CoreV1().Pods("kube-system")
	patch := func(strategy, liveness string) {
		t.Helper()
		text := `{"spec":{"updateStrategy":` + strategy + `,"template":{"spec":{"containers":[{"name":"calico-node","livenessProbe":` + liveness + `}]}}}}`
		if _, err := sets.Patch(context.Background(), "calico-node", types.StrategicMergePatchType, []byte(text),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ours := metav1.ListOptions{LabelSelector: "k8s-app=calico-node", FieldSelector: "spec.nodeName=" + node}
	replace := func() (anew corev1.Pod) {
		t.Helper()
		old, err := pods.List(context.Background(), ours)
		if err == nil {
			err = pods.DeleteCollection(context.Background(), metav1.DeleteOptions{}, ours)
		}
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, time.Minute, func() string {
			list, err := pods.List(context.Background(), ours)
			if err != nil || len(list.Items) != 1 || len(old.Items) != 1 || list.Items[0].UID == old.Items[0].UID {
				return fmt.Sprintf("calico-node was not replaced: %v", err)
			}
			anew = list.Items[0]
			if s := anew.Status.ContainerStatuses; len(s) != 1 || s[0].State.Running == nil {
				return "calico-node does not run"
			}
			return ""
		})
		return anew
	}
	patch(`{"type":"OnDelete","rollingUpdate":null}`, `{"initialDelaySeconds":3,"periodSeconds":1,"failureThreshold":4,"timeoutSeconds":1}`)
	t.Cleanup(func() {
		patch(`{"type":"OnDelete"}`, `{"initialDelaySeconds":10,"periodSeconds":10,"failureThreshold":6,"timeoutSeconds":10}`)
		replace()
		patch(`{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1}}`, `{}`)
		nodeReady(t, node)
		nodeReady(t, "node-a")
	})
	pod := replace()
	d, _ := report(t, "run", "--node", node, "--via", "api", "--checks", "calico-budget")
	d.want(t, "calico-budget", probe.OK, "about 7s")
	signalAll(t, node, "calico-node", "STOP")
	eventually(t, time.Minute, func() string {
		now, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if s := now.Status.ContainerStatuses[0]; s.RestartCount == 0 || !s.Ready {
			return "calico-node was not killed and started again"
		}
		return ""
	})
	d, a := report(t, "run", "--node", node, "--via", "api", "--checks", "calico-pod,calico-budget")
	if a.exit != 0 {
		t.Errorf("exit %d\n%s", a.exit, a.stderr)
	}
	d.want(t, "calico-pod", probe.Warn, "1 restart; previous container exited 137")
	d.want(t, "calico-budget", probe.Warn, "was killed", "(exit code 137)", "about what the liveness probe allows (7s); the new one is ready")

	eventually(t, 30*time.Second, func() string {
		signalAll(t, node, "calico-node", "KILL")
		d, _ = report(t, "run", "--node", node, "--via", "api", "--checks", "calico-pod")
		for _, r := range d.of("calico-pod") {
			if r.Status == probe.Fail && strings.Contains(r.Saw, "CrashLoopBackOff") {
				return ""
			}
		}
		return fmt.Sprint(d.Results)
	})
	d.want(t, "calico-pod", probe.Fail, "waiting: CrashLoopBackOff", "previous container exited 137")
}

// TestClocksApart puts a clock that is two hours slow between client and API server. The node's probe asks the API
// server itself, so the two times contradict each other. A test cannot set this machine's clock, which the nodes share.
func TestClocksApart(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.NextProtos = []string{"http/1.1"} // streams are taken over, which HTTP/2 has not
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	late := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("Date", time.Now().Add(-2*time.Hour).UTC().Format(http.TimeFormat))
			return nil
		},
	})
	t.Cleanup(late.Close)
	d, a := report(t, "run", "--node", "node-a", "--via", "pod", "--checks", "node-clock", "--server", late.URL)
	if a.exit != 5 {
		t.Errorf("exit %d\n%s", a.exit, a.stderr)
	}
	d.want(t, "node-clock", probe.Unknown, "a server's clock is wrong")
}
