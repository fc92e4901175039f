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
