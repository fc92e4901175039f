//go:build e2e

package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// culprit is a fault with real Calico. The first cause must name the culprit.
type culprit struct {
	realFault
	exit   int
	names  []string // what the first cause says of it: its sentence, its evidence or its fix
	sure   bool     // with high confidence
	chance bool     // it may also be a fault: node-b's node port leads to a pod of node-a now and then
}

// TestRealCulprits breaks a node with real Calico in ways whose first answer was once a symptom, or named no culprit,
// and requires the culprit.
func TestRealCulprits(t *testing.T) {
	onCalico(t)
	for _, c := range slices.Concat(calicoCulprits, foreignCulprits, closedCulprits()) {
		t.Run(c.name, func(t *testing.T) {
			_, d := broke(t, c.realFault)
			if d.Exit != c.exit && !(c.chance && d.Exit == 3) {
				t.Errorf("%s, exit %d, want %d", d.Verdict, d.Exit, c.exit)
			}
			first := d.first()
			if c.sure && first.Confidence != probe.High {
				t.Errorf("%s with %s confidence", first.ID, first.Confidence)
			}
			text, err := json.Marshal(first)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range c.names {
				if !strings.Contains(string(text), name) {
					t.Errorf("it does not say %q: %s", name, text)
				}
			}
		})
	}
}

// closedCulprits close node-a to node-b alone, by a table of another program. One node that says so makes a warning.
func closedCulprits() []culprit {
	var out []culprit
	for name, c := range map[string]struct{ hook, rule, names, want string }{
		"node-port-closed-to-others": {"prerouting", "ip saddr 10.88.0.12 tcp dport 30080 drop", "tcp dport 30080 drop",
			"node-differs"},
		"pods-closed-to-others": {"forward", "iifname eth0 ct state new drop", "ct state new drop", "node-differs"},
		// The probe on node-a follows the packets of the other nodes to its kubelet.
		"kubelet-closed-to-others": {"input", "ip saddr 10.88.0.12 tcp dport 10250 drop", "tcp dport 10250 drop",
			"input-closed"},
	} {
		table := "only on node-a: firewall inet agent in"
		if c.want == "input-closed" {
			table = "nftables inet agent in"
		}
		out = append(out, culprit{realFault: realFault{
			name: name, want: c.want, undo: `on node-a -- nft delete table inet agent`,
			make: `on node-a -- nft 'add table inet agent; add chain inet agent in { type filter hook ` + c.hook +
				` priority -310; }; add rule inet agent in ` + c.rule + `'`,
		}, chance: name == "pods-closed-to-others", names: []string{table, c.names}})
	}
	return out
}

// foreignCulprits are those of the kernel's tables.
var foreignCulprits = []culprit{
	{
		realFault: realFault{
			name: "block-route-in-table-local",
			// With a custom rule, the kernel reads table local before main, not both at once.
			make: `block=$(on node-a -- ip route show type blackhole | cut -d' ' -f2 | head -1)
on node-a -- ip rule add pref 1000 fwmark 0x99 lookup 99
on node-a -- ip route add local "$block" dev eth0 table local proto 66`,
			undo: `on node-a -- ip route flush table local proto 66; on node-a -- ip rule del pref 1000`,
			want: "route-drops",
		}, exit: 3, sure: true, names: []string{"dev eth0 proto 66", "delivers to the node itself", "default/workload-a"},
	},
	{
		realFault: realFault{
			name: "api-leads-to-a-kubelet",
			make: `on node-a -- nft 'add table ip agent; add chain ip agent out { type nat hook output priority -150; }; add rule ip agent out ip daddr 10.96.0.1 tcp dport 443 dnat to 10.88.0.12:10250'
anew`,
			shows: `calico '.status.initContainerStatuses[*].restartCount' | grep -q '[1-9]'`,
			undo:  `on node-a -- nft delete table ip agent; anew`, want: "service-hijacked",
		}, exit: 3, sure: true, names: []string{"ip agent out", "10.96.0.1:443", "to 10.88.0.12:10250"},
	},
	{
		realFault: realFault{
			name: "firewall-flushed-again-and-again",
			make: `on node-a -- sh -c 'mkdir -p /opt/hardening; echo "$0" >/opt/hardening/apply.sh; setsid sh /opt/hardening/apply.sh >/dev/null 2>&1 </dev/null & echo $! >/run/hardening.pid' 'while :; do
	nft flush ruleset
	nft "add table inet hardening; add chain inet hardening input { type filter hook input priority 0; }; add rule inet hardening input tcp dport 23 drop"
	sleep 20
done'
sleep 30`,
			undo: `on node-a -- sh -c 'kill $(cat /run/hardening.pid); rm -r /opt/hardening; nft delete table inet hardening
for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" != kube-proxy ] || kill ${p#/proc/}; done'; anew`,
			want: "firewall-rewritten",
		}, exit: 3, sure: true, names: []string{"inet hardening"},
	},
	{
		realFault: realFault{
			name: "two-machines-with-one-address", make: twin,
			undo: `kill "$(cat /run/calico-probe-sandbox/$E2E_CLUSTER/twin.pid)"`, want: "address-twice",
		}, exit: 3, sure: true, names: []string{"2 machines on the link answer for 10.88.0.12, the address of node-b"},
	},
	{
		realFault: realFault{
			name: "pod-interface-down",
			make: `on node-a -- ip link set "$(on node-a -- ip route get "$(kubectl get pod workload-a -o jsonpath='{.status.podIP}')" | grep -o 'cali[0-9a-f]*')" down`,
			undo: `on node-a -- sh -c 'for l in /sys/class/net/cali*; do ip link set ${l##*/} up; done'`, want: "pod-route-missing",
		}, exit: 3, sure: true, names: []string{"is down, which removed its route", "ip link set cali"},
	},
}

// twin is another machine on the link with the address of node-b. It announces itself, as one does that just came up.
const twin = `setsid unshare -n bash -c 'while :; do ip neigh flush dev eth0; echo here >/dev/udp/10.88.0.11/9; sleep 1; done' >/dev/null 2>&1 </dev/null &
twin=$!; echo $twin >/run/calico-probe-sandbox/$E2E_CLUSTER/twin.pid; sleep 1
fabric() { nsenter -t "$(pgrep -f "^sandbox _cluster --name $E2E_CLUSTER\$")" -n -- "$@"; }
fabric ip link add twin type veth peer name eth0 netns $twin
fabric ip link set twin master fabric up
nsenter -t $twin -n -- ip addr add 10.88.0.12/24 dev eth0
nsenter -t $twin -n -- ip link set eth0 up`

// calicoCulprits are those of what belongs to Calico: its objects, its pods and its files.
var calicoCulprits = []culprit{
	{
		realFault: realFault{
			name: "ipv6-without-a-pool",
			make: `on node-a -- sed -i 's/"type": "calico-ipam"/"type": "calico-ipam", "assign_ipv4": "true", "assign_ipv6": "true"/' /etc/cni/net.d/10-calico.conflist
pods 1`,
			shows: `hang`, undo: `anew; nopods`, want: "ipam-family-missing",
		}, exit: 3, sure: true, names: []string{"/etc/cni/net.d/10-calico.conflist", "IPv6", "default-ipv4-ippool"},
	},
	{
		realFault: realFault{
			name: "bird-refuses-its-configuration",
			make: `kubectl -n kube-system exec "$(calico .metadata.name)" -c calico-node -- cat /etc/calico/confd/templates/bird_ipam.cfg.template |
	sed 's/^function calico_export_to_bgp_peers.*/&\n  krt_tunnels = "tunl0";/' |
	kubectl -n kube-system create configmap bird-templates --from-file=bird_ipam.cfg.template=/dev/stdin
change '{"spec":{"template":{"spec":{"volumes":[{"name":"templates","configMap":{"name":"bird-templates"}}],"containers":[{"name":"calico-node","volumeMounts":[{"name":"templates","mountPath":"/etc/calico/confd/templates/bird_ipam.cfg.template","subPath":"bird_ipam.cfg.template"}]}]}}}}'
sleep 30`,
			shows: `unready`, undo: `back; kubectl -n kube-system delete configmap bird-templates`, want: "bird-config-rejected",
		}, exit: 3, sure: true, names: []string{"bird_ipam.cfg:23:24 You may set only variables"},
	},
	{
		realFault: realFault{
			name:  "liveness-probe-of-another-version",
			make:  `change '{"spec":{"template":{"spec":{"containers":[{"name":"calico-node",` + livenessOf(`["/bin/calico-node","-liveness"]`) + `}]}}}}'`,
			shows: `test "$(calico '.status.containerStatuses[0].restartCount')" -ge 2`, undo: `back`, want: "probe-broken",
		}, exit: 3, sure: true, names: []string{"kills calico-node in a loop", "flag provided but not defined: -live"},
	},
	{
		realFault: realFault{
			name: "controllers-liveness-probe-of-another-version",
			make: `kubectl -n kube-system patch deploy calico-kube-controllers -p '{"spec":{"template":{"spec":{"nodeName":"node-a","containers":[{"name":"calico-kube-controllers",` +
				livenessOf(`["/usr/bin/check-status","-x"]`) + `}]}}}}'`,
			shows: `kubectl -n kube-system get pod -l k8s-app=calico-kube-controllers -o jsonpath='{.items[*].status.containerStatuses[0].restartCount}' | grep -q '[2-9]'`,
			undo:  `kubectl -n kube-system rollout undo deploy calico-kube-controllers; kubectl -n kube-system rollout status deploy calico-kube-controllers --timeout=60s`,
			want:  "probe-broken",
		}, exit: 3, sure: true, names: []string{"kills calico-kube-controllers in a loop", "unknown shorthand flag: 'x'"},
	},
	{
		realFault: realFault{
			name:  "cni-plugin-of-another-cpu",
			make:  `on node-a -- sh -c 'cd /opt/cni/bin; cp calico new; printf "\267" | dd of=new bs=1 seek=18 conv=notrunc; mv new calico'; pods 1`,
			shows: `hang`, undo: `anew; nopods`, want: "cni-plugin-missing",
		}, exit: 3, sure: true, names: []string{"/opt/cni/bin/calico is for another CPU (EM_AARCH64 instead of EM_X86_64)"},
	},
	{
		realFault: realFault{
			name: "node-selector-without-the-label",
			make: `kubectl label node node-b network.example.com/calico=yes
change '{"spec":{"template":{"spec":{"nodeSelector":{"network.example.com/calico":"yes"}}}}}'`,
			undo: `back || true; kubectl label node node-b network.example.com/calico-`, want: "calico-pod-missing",
		}, exit: 3, sure: true, names: []string{"nodeSelector requires network.example.com/calico=yes",
			"Add the label network.example.com/calico=yes"},
	},
}

// livenessOf is a liveness probe that fails within seconds where its command does.
func livenessOf(command string) string {
	return `"livenessProbe":{"exec":{"command":` + command + `},"periodSeconds":3,"failureThreshold":2,"initialDelaySeconds":1}`
}
