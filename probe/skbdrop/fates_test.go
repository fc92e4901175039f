//go:build e2e

package skbdrop

import (
	"net"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

const nft = "nft add table inet t\n"

// chain is an nftables rule that drops our packets at a hook.
func chain(ns, hook string) string {
	if ns != "" {
		ns += ": "
	}
	return ns + nft + ns + "nft add chain inet t c '{ type filter hook " + hook + " priority 0 ; }'\n" +
		ns + "nft add rule inet t c meta l4proto { icmp, ipv6-icmp, tcp } ip daddr 192.0.2.2 drop\n" +
		ns + "nft add rule inet t c icmpv6 type echo-request drop\n" +
		ns + "nft add rule inet t c icmp type echo-request drop\n"
}

// fates are the ways to lose a packet that TestFates creates for real. Kernel versions differ, so "|" separates
// alternatives: since 6.8 nftables' own function drops, before that and with iptables-legacy nf_hook_slow.
var fates = []fate{
	{name: "nft-input", does: "a rule of nftables in the other host's input", setup: chain("far", "input"),
		to: "192.0.2.2", reason: "NETFILTER_DROP", function: nftables, hook: "INPUT", at: "eth0"},
	{name: "nft-output", does: "a rule of nftables in the node's output", setup: chain("", "output"),
		to: "192.0.2.2", reason: "NETFILTER_DROP", function: nftables, hook: "OUTPUT", at: "eth0"},
	{name: "nft-forward", does: "a rule of nftables in the node's forward", setup: chain("", "forward"),
		from: "pod", to: "192.0.2.2", reason: "NETFILTER_DROP", function: nftables, hook: "FORWARD", at: "cali12"},
	{name: "nft-forward-ipv6", does: "the same, of IPv6", setup: chain("", "forward"),
		from: "pod", to: "fd02::2", reason: "NETFILTER_DROP", function: nftables, hook: "FORWARD", at: "cali12"},
	{name: "nft-forward-tcp", does: "the same, of TCP", setup: chain("", "forward"),
		from: "pod", to: "192.0.2.2:80", reason: "NETFILTER_DROP", function: nftables, hook: "FORWARD", at: "cali12"},
	{name: "nft-reject", does: "a rule of nftables that rejects", setup: nft + forward + "nft add rule inet t c reject",
		from: "pod", to: "192.0.2.2:80", reason: "NETFILTER_DROP", function: nftables, hook: "FORWARD", at: "cali12"},
	{name: "nft-prerouting", does: "a rule of nftables in prerouting", setup: chain("", "prerouting"),
		from: "pod", to: "192.0.2.2", reason: "NETFILTER_DROP", function: nftables, hook: "PREROUTING", at: "cali12"},
	{name: "nft-postrouting", does: "a rule of nftables in postrouting", setup: chain("", "postrouting"),
		from: "pod", to: "192.0.2.2", reason: "NETFILTER_DROP", function: nftables, hook: "POSTROUTING", at: "eth0"},
	{name: "nft-ingress", does: "a rule of nftables at an interface (netdev)", setup: ingress,
		from: "pod", to: "192.0.2.2", reason: "NETFILTER_DROP", function: nftables, hook: "ingress", at: "cali12"},
	{name: "nft-pod", does: "a rule in the pod's own namespace", setup: chain("pod", "output"),
		from: "pod", to: "192.0.2.2", reason: "NETFILTER_DROP", function: nftables, hook: "OUTPUT", at: "eth0"},
	{name: "nft-answer", does: "a rule that drops the answer, in the pod", setup: answer,
		from: "pod", to: "192.0.2.2", reason: "NETFILTER_DROP", function: nftables, hook: "INPUT", at: "eth0", answer: true},
	{name: "iptables-nft", does: "a rule of iptables-nft", setup: "iptables-nft -A FORWARD -p icmp -j DROP",
		from: "pod", to: "192.0.2.2", reason: "NETFILTER_DROP", function: nftables, hook: "FORWARD", at: "cali12"},
	{name: "iptables-legacy", does: "a rule of iptables-legacy", setup: "iptables-legacy -A FORWARD -p icmp -j DROP",
		from: "pod", to: "192.0.2.2", reason: "NETFILTER_DROP", function: "nf_hook_slow", hook: "FORWARD", at: "cali12"},
	{name: "rp-filter", does: "rp_filter: the way back is another one",
		setup: "sysctl -qw net.ipv4.conf.cali12.rp_filter=1\nip route add 10.65.0.2/32 via 192.0.2.2",
		from:  "pod", to: "192.0.2.2", reason: "IP_RPFILTER", function: "ip_rcv_finish_core", at: "cali12"},
	{name: "no-route", does: "no route", from: "pod", to: "203.0.113.9",
		reason: "IP_INNOROUTES", function: "ip_error", at: "cali12"},
	{name: "no-route-ipv6", does: "no route, of IPv6", from: "pod", to: "fd99::9",
		reason: "IP_INNOROUTES", function: "ip6_pkt_drop|ip6_pkt_discard", at: "cali12"},
	{name: "blackhole", does: "a blackhole route", setup: "ip route add blackhole 192.0.2.2/32",
		from: "pod", to: "192.0.2.2", reason: "NOT_SPECIFIED", function: "ip_error|dst_discard", at: "cali12"},
	{name: "prohibit", does: "a route of type prohibit", setup: "ip route add prohibit 192.0.2.2/32",
		from: "pod", to: "192.0.2.2", reason: "NOT_SPECIFIED", function: "ip_error", at: "cali12"},
	{name: "blackhole-own", does: "a blackhole on the node that sends", setup: "ip route add blackhole 192.0.2.2/32",
		to: "192.0.2.2", unseen: "no packet is made: the sender has an error (EINVAL)"},
	{name: "no-forwarding", does: "forwarding is off", setup: "sysctl -qw net.ipv4.conf.cali12.forwarding=0",
		from: "pod", to: "192.0.2.2", reason: "IP_INADDRERRORS", function: "ip_error", at: "cali12"},
	{name: "mtu", does: "too big for the next interface, and not to be fragmented", setup: "ip link set eth0 mtu 1000",
		from: "pod", to: "192.0.2.2", echo: echo{size: 1300}, reason: "PKT_TOO_BIG", function: "ip_forward", at: "cali12"},
	{name: "ttl", does: "its TTL is over", from: "pod", to: "192.0.2.2", echo: echo{ttl: 1},
		reason: "IP_INHDR", function: "ip_forward", at: "cali12"},
	{name: "icmp-checksum", does: "a wrong ICMP checksum", from: "pod", to: "192.0.2.2", echo: echo{corrupt: true},
		reason: "ICMP_CSUM", function: "icmp_rcv", at: "eth0"},
	{name: "wrong-mac", does: "a frame for another MAC", from: "pod", to: "192.0.2.2",
		setup:  "pod: ip neigh replace 10.65.0.1 lladdr 02:00:00:00:00:99 dev eth0",
		reason: "OTHERHOST", function: "ip_rcv_core", at: "cali12"},
	{name: "neighbour", does: "a neighbour that does not answer (three seconds later)", from: "pod", to: "192.0.2.77",
		wait: 4 * time.Second, reason: "NEIGH_FAILED", function: "neigh_invalidate|arp_error_report", at: "eth0"},
	{name: "neighbour-ipv6", does: "the same, of IPv6", from: "pod", to: "fd02::77", wait: 4 * time.Second,
		reason: "NOT_SPECIFIED|NEIGH_FAILED", function: "neigh_invalidate|ndisc_error_report", at: "eth0"},
	{name: "port-closed", does: "a port at which nothing listens", from: "pod", to: "192.0.2.2:81",
		reason: "NO_SOCKET", function: "tcp_v4_rcv", at: "eth0"},
	{name: "tcp-md5", does: "a password that the other side has for this peer (TCP MD5)", from: "pod", to: "192.0.2.2:179",
		prep: md5, reason: "TCP_MD5NOTFOUND", function: "tcp_v4_rcv|tcp_inbound_hash", at: "eth0"},
	{name: "listen-full", does: "a full queue of a listener", from: "pod", to: "192.0.2.2:82", prep: full,
		unseen: "came in by eth0, and is not called a drop: ListenOverflows of netstat counts it"},
	{name: "tc-ingress", does: "tc at an interface, inwards", prep: shot("cali12", ebpf.AttachTCXIngress),
		from: "pod", to: "192.0.2.2", reason: "TC_INGRESS", function: "__netif_receive_skb_core", at: "cali12"},
	{name: "tc-egress", does: "tc at an interface, outwards", prep: shot("eth0", ebpf.AttachTCXEgress),
		from: "pod", to: "192.0.2.2", reason: "TC_EGRESS", function: "__dev_queue_xmit", at: "eth0"},
	{name: "xdp", does: "XDP (generic)", prep: xdp("cali12"), from: "pod", to: "192.0.2.2",
		reason: "NOT_SPECIFIED|XDP", function: "do_xdp_generic", at: "cali12"},
	{name: "qdisc", does: "a queue that is full", setup: "tc qdisc add dev eth0 root tbf rate 8bit burst 1 limit 1",
		from: "pod", to: "192.0.2.2", reason: "QDISC_DROP", function: "__dev_queue_xmit", at: "eth0"},
	{name: "veth-down", does: "the other end of the cable is down", setup: "far: ip link set eth0 down",
		from: "pod", to: "192.0.2.2", reason: "QDISC_DROP", function: "__dev_queue_xmit", at: "eth0"},
	{name: "vxlan-port", does: "the other host's firewall drops VXLAN", setup: vxlan + "far: " + nft + "far: " + input +
		"far: nft add rule inet t c udp dport 4789 drop", from: "pod", to: "10.66.0.2",
		reason: "NETFILTER_DROP", function: nftables, hook: "INPUT", at: "eth0", wrapped: true},
	{name: "vxlan-vni", does: "the other host has another VNI", setup: vxlan +
		"far: ip link set vxlan.calico down\nfar: ip link del vxlan.calico\nfar: ip link add vxlan.calico type vxlan id 7 " +
		"dstport 4789 local 192.0.2.2 dev eth0\nfar: ip link set vxlan.calico up",
		from: "pod", to: "10.66.0.2", reason: "VXLAN_VNI_NOT_FOUND|NOT_SPECIFIED", function: "vxlan_rcv", at: "eth0",
		wrapped: true},
	{name: "vxlan-fdb", does: "VXLAN has no entry for the other host", from: "pod", to: "10.66.0.2",
		setup:  vxlan + "bridge fdb del 02:00:00:00:00:66 dev vxlan.calico dst 192.0.2.2",
		reason: "NO_TX_TARGET|NOT_SPECIFIED", function: "vxlan_xmit", at: "vxlan.calico"},
	{name: "healthy", from: "pod", to: "192.0.2.2"},
	{name: "healthy-own", to: "192.0.2.1"},
	{name: "healthy-ipv6", from: "pod", to: "fd02::2"},
	{name: "healthy-tcp", from: "pod", to: "192.0.2.2:83", prep: listen},
	{name: "healthy-vxlan", setup: vxlan, from: "pod", to: "10.66.0.2"},
}

const (
	nftables = "nft_do_chain|nf_hook_slow"
	forward  = "nft add chain inet t c '{ type filter hook forward priority 0 ; }'\n"
	input    = "nft add chain inet t c '{ type filter hook input priority 0 ; }'\n"
	answer   = "pod: " + nft + "pod: " + input + "pod: nft add rule inet t c icmp type echo-reply drop"
	ingress  = "nft add table netdev t\n" +
		"nft add chain netdev t c '{ type filter hook ingress device cali12 priority 0 ; }'\n" +
		"nft add rule netdev t c icmp type echo-request drop"
)

const vxlan = `
ip link add vxlan.calico type vxlan id 4096 dstport 4789 local 192.0.2.1 dev eth0 nolearning
ip link set vxlan.calico address 02:00:00:00:00:65 up
ip addr add 10.65.1.0/32 dev vxlan.calico
far: ip link add vxlan.calico type vxlan id 4096 dstport 4789 local 192.0.2.2 dev eth0 nolearning
far: ip link set vxlan.calico address 02:00:00:00:00:66 up
far: ip addr add 10.66.0.2/32 dev vxlan.calico
ip neigh add 10.66.0.2 lladdr 02:00:00:00:00:66 dev vxlan.calico
bridge fdb add 02:00:00:00:00:66 dev vxlan.calico dst 192.0.2.2
ip route add 10.66.0.2/32 via 10.66.0.2 dev vxlan.calico onlink
far: ip neigh add 10.65.1.0 lladdr 02:00:00:00:00:65 dev vxlan.calico
far: bridge fdb add 02:00:00:00:00:65 dev vxlan.calico dst 192.0.2.1
far: ip route add 10.65.0.0/24 via 10.65.1.0 dev vxlan.calico onlink
`

func socketAt(t *testing.T, port, backlog int, set func(fd int) error) {
	in(t, "far", func() {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err == nil && set != nil {
			err = set(fd)
		}
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrInet4{Port: port})
		}
		if err == nil {
			err = unix.Listen(fd, backlog)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

func listen(t *testing.T) { socketAt(t, 83, 10, nil) }

// full opens a listener whose queue is full.
func full(t *testing.T) {
	socketAt(t, 82, 0, nil)
	in(t, "pod", func() {
		for range 2 {
			c, err := net.DialTimeout("tcp", "192.0.2.2:82", 300*time.Millisecond)
			if err == nil {
				t.Cleanup(func() { c.Close() })
			}
		}
	})
}

// md5 opens a listener that requires a password of its peer (RFC 2385), like a router with one for its BGP session.
func md5(t *testing.T) {
	socketAt(t, 179, 1, func(fd int) error {
		sig := unix.TCPMD5Sig{Keylen: 3, Key: [80]byte{1, 2, 3}}
		sig.Addr.Family = unix.AF_INET
		(*unix.RawSockaddrInet4)(unsafe.Pointer(&sig.Addr)).Addr = [4]byte{10, 65, 0, 2}
		return unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, &sig)
	})
}

func xdp(device string) func(*testing.T) {
	return func(t *testing.T) {
		nic, err := net.InterfaceByName(device)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "MIT",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}})
		if err != nil {
			t.Fatal(err)
		}
		l, err := link.AttachXDP(link.XDPOptions{Interface: nic.Index, Program: prog, Flags: link.XDPGenericMode})
		if err != nil {
			t.Skipf("this kernel has no XDP: %v", err)
		}
		t.Cleanup(func() { l.Close(); prog.Close() })
	}
}

// shot drops all packets that a clsact hook of tc sees.
func shot(device string, at ebpf.AttachType) func(*testing.T) {
	return func(t *testing.T) {
		link1, err := net.InterfaceByName(device)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "MIT",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
		if err != nil {
			t.Fatal(err)
		}
		l, err := link.AttachTCX(link.TCXOptions{Interface: link1.Index, Program: prog, Attach: at})
		if err != nil {
			t.Skipf("this kernel has no tcx: %v", err)
		}
		t.Cleanup(func() { l.Close(); prog.Close() })
	}
}
