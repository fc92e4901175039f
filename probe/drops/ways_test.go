//go:build e2e

package drops

import "net/netip"

// nftDrop is an nftables table with one rule at a hook.
func nftDrop(in, family, hook, rule string) string {
	return in + "nft add table " + family + " t\n" +
		in + "nft 'add chain " + family + " t c { type filter hook " + hook + " priority 0 ; }'\n" +
		in + "nft add rule " + family + " t c " + rule + "\n"
}

// Rules as Felix v3.32 writes them.
const felixNFT = `
nft -f - <<'END'
table ip calico {
	chain filter-cali-pi-default.deny {
		counter meta mark set 0x80000 comment "cali:abcdefghijklmnop; NetworkPolicy default/deny ingress"
		meta mark & 0x80000 == 0x80000 counter drop comment "cali:bbcdefghijklmnop;"
	}
	chain filter-cali-tw-cali0 {
		ct state established,related counter accept comment "cali:cbcdefghijklmnop;"
		ct state invalid counter drop comment "cali:dbcdefghijklmnop;"
		counter jump filter-cali-pi-default.deny comment "cali:ebcdefghijklmnop;"
	}
	chain filter-OUTPUT {
		type filter hook output priority filter;
		oifname "cali0" counter jump filter-cali-tw-cali0 comment "cali:fbcdefghijklmnop;"
	}
}
END
`

const felixIPTables = `
iptables-nft -N cali-po-_aBcDeFgHiJkLmNoP
iptables-nft -A cali-po-_aBcDeFgHiJkLmNoP -m comment --comment cali:abcdefghijklmnop -m comment --comment "GlobalNetworkPolicy all egress" -j MARK --set-mark 0x80000
iptables-nft -N cali-fw-cali0
iptables-nft -A cali-fw-cali0 -m comment --comment cali:bbcdefghijklmnop -j cali-po-_aBcDeFgHiJkLmNoP
iptables-nft -A cali-fw-cali0 -m comment --comment cali:cbcdefghijklmnop -m comment --comment "End of tier default. Drop if no policies passed packet" -j DROP
iptables-nft -A FORWARD -i cali0 -j cali-fw-cali0
`

// A pod's own rule with a name like Calico's.
const forged = `
ip netns exec pod nft -f - <<'END'
table ip calico {
	chain filter-cali-pi-default.deny {
		type filter hook input priority 0;
		icmp type echo-request counter drop comment "cali:abcdefghijklmnop; NetworkPolicy default/deny ingress"
	}
}
END
`

// ways are the ways to lose a packet.
var ways = []way{
	{name: "nftables input", script: nftDrop("", "inet", "input", "ip saddr 10.9.1.2 counter drop"), kind: KindRule,
		says: "nftables, table inet t, chain c, rule 1: saddr 10.9.1.2 drop"},
	{name: "nftables output", script: nftDrop("", "ip", "output", "ip daddr 10.9.1.2 counter drop"), kind: KindRule,
		says: "nftables, table ip t, chain c, rule 1: daddr 10.9.1.2 drop"},
	{name: "nftables output, IPv6", script: nftDrop("", "ip6", "output", "ip6 daddr fd09:1::2 counter drop"), to: farNode6,
		kind: KindRule, says: "daddr fd09:1::2 drop"},
	{name: "nftables forward", gate: true, script: nftDrop("", "inet", "forward", "ip daddr 10.9.1.2 counter drop"), from: "pod",
		kind: KindRule, says: "chain c, rule 1: daddr 10.9.1.2 drop"},
	{name: "nftables reject", script: nftDrop("", "inet", "forward", "ip daddr 10.9.1.2 counter reject"), from: "pod",
		kind: KindRule, says: "reject"},
	{name: "nftables reject, TCP", script: nftDrop("", "inet", "forward", "ip daddr 10.9.1.2 counter reject"), from: "pod",
		shape: Shape{Port: 7777}, kind: KindRule, says: "reject"},
	{name: "nftables reject, TCP by IPv6", from: "pod",
		script: nftDrop("", "inet", "forward", "ip6 daddr fd09:1::2 counter reject"), to: farNode6, shape: Shape{Port: 7777}, kind: KindRule, says: "reject"},
	{name: "nftables without a counter", script: nftDrop("", "inet", "output", "ip daddr 10.9.1.2 drop"),
		kind: KindFirewall, says: "a firewall rejects them as they leave"},
	{name: "iptables-nft", script: "iptables-nft -A INPUT -s 10.9.1.2 -p icmp -j DROP", kind: KindRule,
		says: "iptables-nft, table ip filter, chain INPUT, rule 1: icmp saddr 10.9.1.2 drop"},
	{name: "iptables-nft forward policy", gate: true, script: "iptables-nft -P FORWARD DROP\niptables-nft -A FORWARD -d 10.9.1.3 -j ACCEPT\n" +
		"iptables-nft -A FORWARD -s 10.9.1.3 -j ACCEPT", from: "pod", kind: KindChainPolicy,
		says: "iptables-nft, table ip filter, chain FORWARD, its policy: drop"},
	{name: "legacy iptables", gate: true, script: "iptables-legacy -I OUTPUT -d 10.9.1.2 -m comment --comment hardening -j DROP", kind: KindRule,
		says: `legacy iptables, table ip filter, chain OUTPUT, rule 1: daddr 10.9.1.2 drop ("hardening")`},
	{name: "legacy iptables forward policy, IPv6", script: "ip6tables-legacy -A FORWARD -d fd09:1::3 -j ACCEPT\n" +
		"ip6tables-legacy -A FORWARD -s fd09:1::3 -j ACCEPT\nip6tables-legacy -P FORWARD DROP", from: "pod", to: farNode6,
		kind: KindChainPolicy, says: "legacy iptables, table ip6 filter, chain FORWARD, its policy: drop"},
	{name: "Calico policy, nftables", gate: true, script: felixNFT, to: localPod, kind: KindPolicy,
		says: "Calico's NetworkPolicy default/deny ingress drops them"},
	{name: "Calico tier, iptables", script: felixIPTables, from: "pod", kind: KindPolicy,
		says: "accepts them (egress of the pod at cali0, after GlobalNetworkPolicy all egress)"},
	{name: "rp_filter", gate: true, script: "ip link add eth1 type veth peer name near1 netns router\nip addr add 10.9.2.1/24 dev eth1\n" +
		"ip -n router addr add 10.9.2.9/24 dev near1\nip link set eth1 up\nip -n router link set near1 up\n" +
		"ip route add 10.9.1.2 via 10.9.2.9 src 10.9.0.1\nsysctl -qw net.ipv4.conf.all.rp_filter=1", kind: KindRPFilter, says: "rp_filter"},
	{name: "no route", script: "ip route del default\nip route add 10.9.1.3 via 10.9.0.9", kind: KindRoute, says: "no route"},
	{name: "blackhole", script: "ip route add blackhole 10.9.1.2", kind: KindRoute, says: "blackhole"},
	{name: "prohibit", script: "ip route add prohibit 10.9.1.2", kind: KindRoute,
		says: "a prohibit route rejects packets to 10.9.1.2"},
	{name: "blackhole, forwarded", script: "ip route add blackhole 10.9.1.2", from: "pod", kind: KindRoute, says: "blackhole"},
	{name: "pod's address in table local", gate: true, script: "ip route add local 10.244.1.5 dev eth0 table local proto 66", from: "pod",
		kind: KindRoute, says: "makes its source an address of this machine"},
	{name: "forwarding off", script: "sysctl -qw net.ipv4.ip_forward=0", from: "pod", kind: kindForwarding, says: "net.ipv4.conf.cali0.forwarding is 0"},
	{name: "MTU", script: "ip link set eth0 mtu 1400", from: "pod", shape: Shape{Size: 1450},
		kind: kindMTU, says: "larger than the MTU"},
	{name: "MTU, IPv6", script: "ip link set eth0 mtu 1400", from: "pod", to: farNode6,
		shape: Shape{Size: 1450}, kind: kindMTU, says: "larger than the MTU"},
	{name: "MTU of the router", script: "ip -n router link set far mtu 1400", shape: Shape{Size: 1450}, count: []string{"router"},
		kind: kindMTU, where: "router", says: "larger than the MTU"},
	{name: "conntrack full", begin: fillConntrack, script: nftDrop("", "inet", "output", "ct state new accept"),
		kind: KindConntrack, says: "no room"},
	{name: "neighbour missing", to: netip.MustParseAddr("10.9.0.77"), kind: KindNeighbour, says: "the next hop 10.9.0.77 does not answer ARP on eth0"},
	{name: "neighbour missing, IPv6", to: netip.MustParseAddr("fd09::77"), kind: KindNeighbour,
		says: "fd09::77 does not answer NDP"},
	{name: "wrong MAC", script: "ip neigh replace 10.9.0.9 dev eth0 lladdr 02:00:00:00:00:99 nud permanent", fine: localPod, count: []string{"router"},
		kind: KindMAC, where: "router", says: "another MAC address"},
	{name: "port closed", shape: Shape{Port: 7777}, answer: "nothing listens there"},
	{name: "backlog full", gate: true, begin: crowd, shape: Shape{Port: 7000}, count: []string{"far"}, kind: kindListen,
		where: "far", says: "queue of the TCP socket listening on 0.0.0.0:7000 is full"},
	{name: "password (TCP-MD5)", begin: guard, shape: Shape{Port: 7001}, count: []string{"far"}, kind: kindPassword,
		where: "far", says: "password"},
	{name: "TTL", script: "ip -n router route add 10.99.0.0/16 via 10.9.0.1", to: netip.MustParseAddr("10.99.0.1"), from: "pod", count: []string{"router"},
		kind: kindTTL, where: "router", says: "the TTL ran out here"},
	{name: "bad checksum", script: nftDrop("ip netns exec router ", "ip", "forward", "ip saddr 10.9.1.2 @th,64,16 set 0x7777"),
		kind: kindChecksum, says: "received ICMP messages have a wrong checksum"},
	{name: "bad checksum of the header", script: nftDrop("ip netns exec router ", "ip", "forward", "ip saddr 10.9.1.2 @nh,64,8 set 0x77"),
		kind: kindChecksum, says: "IPv4 header arrives with a wrong checksum"},
	{name: "veth down", script: "ip -n pod link set eth0 down", to: localPod, kind: KindLink, says: "outgoing interface cali0 has no carrier"},
	{name: "tc drop", script: "tc qdisc add dev eth0 root handle 1: tbf rate 8kbit burst 10 limit 10", fine: localPod, kind: kindQueue,
		says: "(tc): eth0 tbf 1:0"},
	{name: "the other target lost as well", script: "tc qdisc add dev eth0 root handle 1: tbf rate 8kbit burst 10 limit 10",
		kind: kindQueue, says: "(tc): eth0 tbf 1:0"},
	{name: "pod's own rule", script: nftDrop("ip netns exec pod ", "inet", "input", "icmp type echo-request counter drop"),
		to: localPod, count: []string{"pod"}, kind: KindRule, where: "pod", says: "nftables, table inet t"},
	{name: "pod's own rule, called as Calico's are", script: forged, to: localPod, count: []string{"pod"},
		kind: KindRule, where: "pod", says: "nftables, table ip calico, chain filter-cali-pi-default.deny, rule 1"},
	{name: "VXLAN port, out", script: vxlan + nftDrop("", "inet", "output", "udp dport 4789 counter drop"),
		to: netip.MustParseAddr("10.77.0.2"), kind: KindRule, says: "udp dport 4789 drop"},
	{name: "VXLAN port, in", script: vxlan + nftDrop("ip netns exec far ", "inet", "input", "udp dport 4789 counter drop"),
		to: netip.MustParseAddr("10.77.0.2"), count: []string{"far"}, kind: KindRule, where: "far",
		says: "udp dport 4789 drop"},
	{name: "IPsec policy", script: "ip xfrm policy add dir out dst 10.9.1.2/32 action block", kind: kindIPsec, says: "on their way out"},
	{name: "own packets sent back", script: "ip -n router route add 10.99.0.0/16 via 10.9.0.1", to: netip.MustParseAddr("10.99.0.1")},
	{name: "no route at the router, TCP", to: netip.MustParseAddr("10.88.0.1"), shape: Shape{Port: 7777}},
	{name: "source check of a router", gate: true, script: nftDrop("ip netns exec router ", "ip", "forward", "ip saddr 10.244.0.0/16 ip daddr 10.9.1.2 drop"),
		from: "pod"},
}

// A tunnel between the two nodes.
const vxlan = `
ip link add vxlan.calico type vxlan id 4096 dstport 4789 local 10.9.0.1 dev eth0 nolearning
ip -n far link add vxlan.calico type vxlan id 4096 dstport 4789 local 10.9.1.2 dev eth0 nolearning
ip link set vxlan.calico address 66:00:00:00:00:01 up
ip -n far link set vxlan.calico address 66:00:00:00:00:02 up
ip addr add 10.77.0.1/24 dev vxlan.calico
ip -n far addr add 10.77.0.2/24 dev vxlan.calico
ip neigh add 10.77.0.2 lladdr 66:00:00:00:00:02 dev vxlan.calico nud permanent
ip -n far neigh add 10.77.0.1 lladdr 66:00:00:00:00:01 dev vxlan.calico nud permanent
bridge fdb add 66:00:00:00:00:02 dev vxlan.calico dst 10.9.1.2
ip netns exec far bridge fdb add 66:00:00:00:00:01 dev vxlan.calico dst 10.9.0.1
`
