//go:build e2e

package e2e

import (
	"testing"
)

// machineFaults need a kernel with IPIP and netem, a real systemd, or a reboot. SANDBOX_UP=--machines has those. The
// cluster's pool has IPIP Always.
var machineFaults = []realFault{
	{
		name: "healthy", want: "none",
	},
	{
		name:  "ipip-device-down",
		make:  `on node-a -- systemd-run --unit=off sh -c 'while sleep 0.2; do ip link set tunl0 down; done'; sleep 5`,
		shows: `! on node-a -- ip -o link show tunl0 up | grep -q tunl0`,
		undo:  `on node-a -- systemctl stop off`, want: "tunnel-device",
	},
	{
		name: "ipip-dropped-by-receiver",
		make: `on node-b -- nft 'add table ip broken; add chain ip broken in { type filter hook prerouting priority -310; }; add rule ip broken in meta l4proto 4 drop'`,
		undo: `on node-b -- nft delete table ip broken`, want: "peer-fault",
	},
	{
		name: "ipip-dropped-here",
		make: `on node-a -- nft 'add table ip broken; add chain ip broken in { type filter hook prerouting priority -310; }; add rule ip broken in meta l4proto 4 drop'`,
		undo: `on node-a -- nft delete table ip broken`, want: "rule-drops",
	},
	{
		name: "ipip-sender-unknown",
		make: `on node-a -- sh -c 'systemd-run --unit=off sh -c "while sleep 0.2; do ipset del cali40all-hosts-net 10.88.0.12; done"'; sleep 5`,
		undo: `on node-a -- systemctl stop off`, want: "tunnel-source-unknown",
	},
	{
		name: "ipip-disabled-on-one-node",
		make: `env_of '{"name":"FELIX_IPINIPENABLED","value":"false"}'; sleep 60`,
		undo: `back`, want: "tunnel-settings",
	},
	{
		name: "ipip-mtu-too-big",
		make: `env_of '{"name":"FELIX_IPINIPMTU","value":"1500"}'; on node-a -- sh -c 'for i in /sys/class/net/cali*; do ip link set ${i##*/} mtu 1500; done'; sleep 60`,
		undo: `back; on node-a -- sh -c 'for i in /sys/class/net/cali*; do ip link set ${i##*/} mtu 1480; done'`, want: "mtu-too-big",
	},
	{
		name: "uplink-loses-a-third",
		make: `on node-a -- tc qdisc replace dev eth0 root netem loss 35%`,
		undo: `on node-a -- tc qdisc del dev eth0 root`, want: "packets-lost",
	},
	{
		name: "swap-after-reboot",
		make: `on node-a -- sh -c 'fallocate -l 64M /swapfile && chmod 600 /swapfile && mkswap /swapfile && echo "/swapfile none swap sw 0 0" >>/etc/fstab'`,
		undo: `on node-a -- sh -c 'swapoff -a; sed -i /swapfile/d /etc/fstab; rm -f /swapfile'`, want: "swap-returns",
	},
}

// TestMachines breaks nodes that are virtual machines, and requires the right first cause from one run.
func TestMachines(t *testing.T) {
	onCalico(t)
	if !onMachines() {
		t.Skip("needs nodes that are virtual machines: make machines CALICO=DIR MANIFEST=FILE")
	}
	for _, f := range machineFaults {
		t.Run(f.name, func(t *testing.T) { broke(t, f) })
	}
}

// TestRebootWithSwap is incident F4 with a real reboot: a line in fstab that nothing shows until the kubelet does not
// come back.
func TestRebootWithSwap(t *testing.T) {
	onCalico(t)
	if !onMachines() {
		t.Skip("needs nodes that are virtual machines: make machines CALICO=DIR MANIFEST=FILE")
	}
	f := realFault{name: "swap-after-reboot", want: "swap-on", ssh: true,
		make: `on node-a -- sh -c 'sed -i s/failSwapOn:.*/failSwapOn:\ true/ /var/lib/kubelet/config.yaml
fallocate -l 64M /swapfile && chmod 600 /swapfile && mkswap /swapfile && echo "/swapfile none swap sw 0 0" >>/etc/fstab'
on node-a -- systemctl reboot || true`,
		shows: `kubectl get node node-a --no-headers | grep -q NotReady`,
		undo: `on node-a -- sh -c 'swapoff -a; sed -i /swapfile/d /etc/fstab; rm -f /swapfile
sed -i s/failSwapOn:.*/failSwapOn:\ false/ /var/lib/kubelet/config.yaml; systemctl restart kubelet'`}
	broke(t, f)
}
