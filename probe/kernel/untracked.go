package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
)

// PacketRule is a firewall rule that changes the destination of packets. Either the rule redirects packets itself, or
// it exempts them from connection tracking. In that case, their Service addresses are not translated.
type PacketRule struct {
	Family       int // 4, 6, or 0 for both
	Table, Chain string
	From, To     netip.Prefix // invalid = any
	Proto        int          // 0 = any
	ToPorts      [2]int       // first and last port; 0, 0 = any
	FromPorts    [2]int
	// In and Out are the interfaces through which packets come in and leave, "" = any. A trailing
	// "*" matches the rest of any name.
	In, Out string
	Hook    string // hook of a rule in a base chain: prerouting, output, ...; "" = unknown
	// Partly is true if the rule has further conditions, such as a set or a mark.
	Partly bool

	Does string // one of the Does words
	// Sends is the new destination, except for notrack. If the rule keeps the address or chooses one of several, the
	// address is invalid. The same applies to the port, which is then 0.
	Sends netip.AddrPort
	// The location of the rule. It consists of one of the Wall names, the table's family as nft names it, and the
	// rule's number in nftables. For a rule that redirects packets, the number may be the position in a legacy
	// iptables chain.
	Wall, TableFamily string
	Handle            uint64
}

// Values of Does.
const (
	doesNotrack  = "notrack"
	DoesDNAT     = "dnat"
	DoesRedirect = "redirect" // sends the packet to this machine
	DoesTProxy   = "tproxy"   // sends the packet to a socket on this machine, while the packet keeps its destination
)

// String formats the rule as one line.
func (r PacketRule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s:", r.Table, r.Chain)
	if r.In != "" {
		fmt.Fprintf(&b, " in %s", r.In)
	}
	if r.Out != "" {
		fmt.Fprintf(&b, " out %s", r.Out)
	}
	if r.From.IsValid() {
		fmt.Fprintf(&b, " from %s", r.From)
	}
	if r.To.IsValid() {
		fmt.Fprintf(&b, " to %s", r.To)
	}
	if r.Proto != 0 {
		name := map[int]string{6: "tcp", 17: "udp", 1: "icmp", 132: "sctp"}[r.Proto]
		if name == "" {
			name = fmt.Sprintf("proto %d", r.Proto)
		}
		fmt.Fprintf(&b, " %s", name)
	}
	for _, ports := range []struct {
		name string
		of   [2]int
	}{{"port", r.ToPorts}, {"from port", r.FromPorts}} {
		switch {
		case ports.of == [2]int{}:
		case ports.of[0] == ports.of[1]:
			fmt.Fprintf(&b, " %s %d", ports.name, ports.of[0])
		default:
			fmt.Fprintf(&b, " %s %d-%d", ports.name, ports.of[0], ports.of[1])
		}
	}
	b.WriteString(" " + r.Does)
	switch to := r.Sends; {
	case to.Addr().IsValid() && to.Port() == 0:
		fmt.Fprintf(&b, " to %s", to.Addr())
	case to.Addr().IsValid():
		fmt.Fprintf(&b, " to %s", to)
	case to.Port() != 0:
		fmt.Fprintf(&b, " to :%d", to.Port())
	}
	return b.String()
}

// Matches reports whether the rule applies to packets that are sent to an address and port. A port of 0 means any port.
func (r PacketRule) Matches(to netip.AddrPort, proto int) bool {
	family := 4
	if to.Addr().Is6() {
		family = 6
	}
	port := int(to.Port())
	return (r.Family == 0 || r.Family == family) && (!r.To.IsValid() || r.To.Contains(to.Addr())) &&
		(r.Proto == 0 || r.Proto == proto) && (r.ToPorts == [2]int{} || port >= r.ToPorts[0] && port <= r.ToPorts[1])
}

// Passes reports whether the rule sees packets at a hook if they come in and leave through these interfaces, "" = none.
func (r PacketRule) Passes(hook, in, out string) bool {
	return (r.Hook == "" || r.Hook == hook) && isInterface(r.In, in) && isInterface(r.Out, out)
}

// isInterface reports whether a condition on an interface allows the given interface. The condition
// "" allows any interface.
func isInterface(wanted, name string) bool {
	if start, any := strings.CutSuffix(wanted, "*"); any {
		return name != "" && strings.HasPrefix(name, start)
	}
	return wanted == "" || wanted == name
}

// interfaceOf returns the interface in a comparison of names. It is the name up to a zero byte, or the start of a name.
func interfaceOf(data []byte) string {
	name, _, whole := bytes.Cut(data, []byte{0})
	if !whole && len(data) < maxInterface {
		return string(name) + "*"
	}
	return string(name)
}

// maxInterface is the size of an interface name, including the zero byte at its end (IFNAMSIZ).
const maxInterface = 16

// legacyUntracked lists such rules in the entries of a legacy iptables table.
func legacyUntracked(l legacyLayout, info legacyInfo, entries []byte) ([]PacketRule, error) {
	var out []PacketRule
	chain := ""
	err := legacyEach(l, entries, func(at, next int, rest []byte, begin int) {
		switch name, data := legacyTarget(rest, begin, next-at); {
		case name == "ERROR":
			chain = text(data)
		case name == "NOTRACK", name == "CT" && len(data) >= 2 && binary.NativeEndian.Uint16(data)&1 != 0:
			r := legacyAbout(l, rest[:begin])
			r.Chain, r.Does, r.Wall = chain, doesNotrack, WallLegacy
			for hook, builtIn := range map[int]string{0: "PREROUTING", 3: "OUTPUT"} {
				if info.Hooks&(1<<hook) != 0 && at >= int(info.First[hook]) && at <= int(info.Last[hook]) {
					r.Chain, r.Hook = builtIn, strings.ToLower(builtIn)
				}
			}
			out = append(out, r)
		}
	})
	return out, err
}

// legacyAbout parses the matches in a legacy iptables entry (struct ipt_ip, ip6t_ip6, and the extensions).
func legacyAbout(l legacyLayout, entry []byte) PacketRule {
	var r PacketRule
	size := 4
	protoAt, inverseAt := 80, 83
	if l == legacy6 {
		size, protoAt, inverseAt = 16, 128, 132
	}
	r.From = masked(entry[:size], entry[2*size:3*size])
	r.To = masked(entry[size:2*size], entry[3*size:4*size])
	r.Proto = int(binary.NativeEndian.Uint16(entry[protoAt:]))
	names, masks := entry[4*size:4*size+2*maxInterface], entry[4*size+2*maxInterface:4*size+4*maxInterface]
	r.In = legacyInterface(names[:maxInterface], masks[:maxInterface])
	r.Out = legacyInterface(names[maxInterface:], masks[maxInterface:])
	r.Partly = entry[inverseAt] != 0
	for at := l.entry; at+32 <= len(entry); {
		next := int(binary.NativeEndian.Uint16(entry[at:]))
		if next < 32 || at+next > len(entry) {
			r.Partly = true
			break
		}
		switch name, data := text(entry[at+2:at+31]), entry[at+32:at+next]; {
		case (name == "tcp" || name == "udp") && len(data) >= 8:
			port := func(i int) int { return int(binary.NativeEndian.Uint16(data[i:])) }
			r.FromPorts, r.ToPorts = portsOf(port(0), port(2)), portsOf(port(4), port(6))
		case name != "comment":
			r.Partly = true
		}
		at += next
	}
	return r
}

// legacyInterface returns the interface with which an entry compares, "" = any. The mask covers the bytes to compare.
// An exact name includes the zero byte at its end.
func legacyInterface(name, mask []byte) string {
	compared := 0
	for compared < len(mask) && mask[compared] != 0 {
		compared++
	}
	if compared == 0 {
		return ""
	}
	return interfaceOf(name[:compared])
}

// portsOf returns a range of ports, or zero if the range covers all ports.
func portsOf(from, to int) [2]int {
	if from == 0 && to == 65535 {
		return [2]int{}
	}
	return [2]int{from, to}
}

// masked returns an address and a mask as a prefix. The prefix is invalid if it covers any address.
func masked(addr, mask []byte) netip.Prefix {
	bits := leadingBits(mask)
	a, ok := netip.AddrFromSlice(addr)
	if !ok || bits == 0 {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(a, bits).Masked()
}
