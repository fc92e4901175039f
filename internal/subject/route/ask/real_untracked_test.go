//go:build e2e

package ask

import (
	"net"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealUntracked has leftover rules and the interface of NodeLocal DNSCache, without its listener.
func TestRealUntracked(t *testing.T) {
	if !nstest.Enter(t, `ip link set lo up
ip link add nodelocaldns type veth peer name other
ip addr add 10.96.0.10/32 dev nodelocaldns
ip link set nodelocaldns up
iptables-nft -t raw -A PREROUTING -d 10.96.0.10 -p udp --dport 53 -j NOTRACK
`) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	dns := checktest.At(probe.KindDNS, "service", "10.96.0.10")
	dns.Port = 53
	checktest.Want(t, checktest.Run(t, untrackedCheck, h, dns), "raw PREROUTING: to 10.96.0.10/32 udp port 53 notrack", probe.Fail,
		"an address of this node's nodelocaldns, with no listener")
	l := must.Get(net.Listen("tcp", "10.96.0.10:53"))(t)
	defer l.Close()
	checktest.Want(t, checktest.Run(t, untrackedCheck, h, dns), "", probe.OK, "no foreign rule")
}

// TestRealUntrackedReplies has native rules for an uplink in iptables' table raw, which iptables-save cannot read
// (puppetlabs/puppetlabs-firewall#372), and the same for another interface.
func TestRealUntrackedReplies(t *testing.T) {
	if !nstest.Enter(t, `ip link set lo up
ip link add eth0 type veth peer name far
ip addr add 10.88.0.11/24 dev eth0
ip link set eth0 up
ip link set far up
ip route add default via 10.88.0.1
nft add table ip raw
nft add chain ip raw PREROUTING { type filter hook prerouting priority raw; }
nft add chain ip raw OUTPUT { type filter hook output priority raw; }
nft add rule ip raw PREROUTING iifname eth0 meta l4proto tcp notrack
nft add rule ip raw OUTPUT oif eth0 meta l4proto tcp counter notrack
nft add rule ip raw PREROUTING iifname docker0 notrack
`) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	api := checktest.At(probe.KindDatastore, "service", "10.96.0.1")
	server := checktest.At(probe.KindDatastore, "endpoint", "10.88.0.1")
	api.Port, server.Port = 443, 6443
	got := checktest.Run(t, untrackedCheck, h, api, server)
	checktest.Want(t, got, "raw PREROUTING: in eth0 tcp notrack", probe.Fail, "replies from service 10.96.0.1")
	checktest.Want(t, got, "raw OUTPUT: out eth0 tcp notrack", probe.Fail, "never translates")
	if len(got) != 2 {
		t.Errorf("%+v", got)
	}
}
