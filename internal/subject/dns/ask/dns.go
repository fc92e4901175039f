package ask

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// dnsPort is the port of a server if only the server's address is known.
const dnsPort = 53

// dnsServers returns the cluster's DNS servers from the plan, and other addresses that the kubelet configures in
// pods. NodeLocal DNSCache listens on an address that is not in the API.
func dnsServers(p *probe.Pass, k node.Kubelet) []probe.Target {
	servers := p.Of(probe.KindDNS)
	for _, text := range k.ClusterDNS {
		a, err := netip.ParseAddr(strings.TrimSpace(text))
		known := func(t probe.Target) bool { return t.Addr == a }
		if err == nil && !slices.ContainsFunc(servers, known) {
			servers = append(servers, probe.Target{Kind: probe.KindDNS, Name: probe.RoleGiven, Addr: a, Port: dnsPort})
		}
	}
	return servers
}

func addrOf(t probe.Target) string { return net.JoinHostPort(t.Addr.String(), strconv.Itoa(t.Port)) }
