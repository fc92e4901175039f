package kernel

import (
	"fmt"
	"net/netip"
	"strings"
)

// Rule is a rule with which the kernel selects a routing table for a packet ("ip rule").
type Rule struct {
	Priority, Table int
	From, To        netip.Prefix // invalid = any
	Mark            uint32       // firewall mark, 0 = any
	In, Out         string       // interfaces, "" = any
	Protocol        int          // IP protocol, 0 = any
	Ports           [2]int       // first and last destination port, 0 = any
	Narrow          bool         // the rule has conditions that are not parsed: source ports, users, TOS, tunnels
	Not             bool         // the rule matches all other packets
	Rejects         bool         // the rule does not select a table: blackhole, unreachable or prohibit
	Partly          bool         // the rule ignores some routes in its table, by their prefix length or device
}

// String formats the rule as one line, like 'ip rule'.
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

// protocolNames maps IP protocols to the names that 'ip rule' prints.
var protocolNames = map[int]string{1: "icmp", 6: "tcp", 17: "udp", 58: "ipv6-icmp", 132: "sctp"}

// TakesAll reports whether the rule applies to every packet that the node itself sends to an address with the given IP
// protocol and port. A protocol of 0 means packets of any protocol.
func (r Rule) TakesAll(to netip.Addr, protocol, port int) bool {
	return !r.Not && !r.Narrow && !r.From.IsValid() && r.Mark == 0 && r.In == "" && r.Out == "" &&
		(!r.To.IsValid() || r.To.Contains(to.Unmap())) && (r.Protocol == 0 || r.Protocol == protocol) &&
		(r.Ports[0] == 0 || r.Ports[0] <= port && port <= r.Ports[1])
}

// Own reports whether the kernel itself created the rule. It creates the rules for the tables local, main and default.
func (r Rule) Own() bool {
	return r.Table == TableLocal || r.Table == TableMain || r.Table == tableDefault
}
