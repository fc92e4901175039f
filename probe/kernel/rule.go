package kernel

import (
	"fmt"
	"net/netip"
	"strings"
)

// Rule is a rule by which the kernel selects a routing table for a packet ("ip rule").
type Rule struct {
	Priority, Table int
	From, To        netip.Prefix // invalid = any
	Mark            uint32       // of the firewall, 0 = any
	In, Out         string       // interfaces, "" = any
	Protocol        int          // of IP, 0 = any
	Ports           [2]int       // the first and the last destination port, 0 = any
	Narrow          bool         // it has conditions that are not parsed: source ports, users, TOS, tunnels
	Not             bool         // it matches all other packets
	Rejects         bool         // it selects no table: blackhole, unreachable or prohibit
	Partly          bool         // it ignores some routes of its table, by their prefix length or device
}

// String formats the rule in one line, like 'ip rule'.
func (r Rule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d: ", r.Priority)
	if r.Not {
		b.WriteString("not ")
	}
	from := "all"
	if r.From.IsValid() {
		from = r.From.String()
	}
	b.WriteString("from " + from)
	if r.To.IsValid() {
		b.WriteString(" to " + r.To.String())
	}
	if r.Mark != 0 {
		fmt.Fprintf(&b, " fwmark %#x", r.Mark)
	}
	for _, name := range []struct{ word, is string }{{"iif", r.In}, {"oif", r.Out}} {
		if name.is != "" {
			b.WriteString(" " + name.word + " " + name.is)
		}
	}
	if name, known := protocolNames[r.Protocol]; known {
		b.WriteString(" ipproto " + name)
	} else if r.Protocol != 0 {
		fmt.Fprintf(&b, " ipproto %d", r.Protocol)
	}
	if r.Ports[0] != 0 && r.Ports[0] == r.Ports[1] {
		fmt.Fprintf(&b, " dport %d", r.Ports[0])
	} else if r.Ports[0] != 0 {
		fmt.Fprintf(&b, " dport %d-%d", r.Ports[0], r.Ports[1])
	}
	if r.Rejects {
		return b.String() + " drops or rejects"
	}
	fmt.Fprintf(&b, " lookup %d", r.Table)
	return b.String()
}

// protocolNames are the names that 'ip rule' prints for IP protocols.
var protocolNames = map[int]string{1: "icmp", 6: "tcp", 17: "udp", 58: "ipv6-icmp", 132: "sctp"}

// TakesAll reports whether the rule applies to every packet that the node itself sends to an address, by a protocol of
// IP and to a port; 0 means packets of any protocol.
func (r Rule) TakesAll(to netip.Addr, protocol, port int) bool {
	return !r.Not && !r.Narrow && !r.From.IsValid() && r.Mark == 0 && r.In == "" && r.Out == "" &&
		(!r.To.IsValid() || r.To.Contains(to.Unmap())) && (r.Protocol == 0 || r.Protocol == protocol) &&
		(r.Ports[0] == 0 || r.Ports[0] <= port && port <= r.Ports[1])
}

// Own reports whether the kernel itself created the rule: those for the tables local, main and default.
func (r Rule) Own() bool {
	return r.Table == TableLocal || r.Table == TableMain || r.Table == tableDefault
}
