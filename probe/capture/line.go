package capture

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
)

// Line formats a packet like tcpdump -n. The outer addresses come first, then the inner addresses of each tunnel.
func Line(p Packet, vxlanPorts []uint16) string {
	l := liner{layers: dissect(p.Protocol, p.Data, vxlanPorts), left: p.Length}
	text := l.words()
	if text == "" {
		text = fmt.Sprintf("protocol 0x%04x, length %d", p.Protocol, p.Length)
	}
	return fmt.Sprintf("%s %s %s %s", p.Time.Format("15:04:05.000000"), p.Interface, p.Direction, text)
}

// liner formats the headers of a packet.
type liner struct {
	layers []layer
	left   int // number of bytes on the wire from the current header to the end of the packet
	out    strings.Builder
	from   netip.Addr
	to     netip.Addr
	pair   bool // addresses were printed, but ports were not
}

func (l *liner) words() string {
	for i, layer := range l.layers {
		if i > 0 {
			before := l.layers[i-1]
			l.left = max(l.left-before.head, 0)
		}
		if !l.header(layer) {
			l.add("header cut")
			break
		}
	}
	if l.pair {
		l.ends(0, 0)
		last := l.layers[len(l.layers)-1]
		l.add(l.protocolOf(last))
	}
	return strings.TrimSuffix(l.out.String(), ": ")
}

// add adds a separator and the text.
func (l *liner) add(format string, args ...any) {
	fmt.Fprintf(&l.out, format+": ", args...)
}

// ends adds the addresses, and the ports if they are known.
func (l *liner) ends(from, to uint16) {
	l.pair = false
	name := func(a netip.Addr, port uint16) string {
		if port == 0 {
			return a.String()
		}
		return fmt.Sprintf("%s.%d", a, port)
	}
	l.add("%s > %s", name(l.from, from), name(l.to, to))
}

// protocolOf names the protocol in an IP header if the next header is missing or unknown.
func (l *liner) protocolOf(last layer) string {
	switch {
	case last.kind == ipv4 && last.has(20):
		if fragment := binary.BigEndian.Uint16(last.b[6:]) & fragmentOffset; fragment != 0 {
			return fmt.Sprintf("fragment at %d, protocol %d, length %d", int(fragment)*8, last.b[9], l.left)
		}
		return fmt.Sprintf("protocol %d, length %d", last.b[9], l.left)
	case last.kind == ipv6 && last.has(40):
		return fmt.Sprintf("protocol %d, length %d", last.b[6], l.left)
	case last.kind == extension && last.has(8):
		return fmt.Sprintf("fragment or protocol %d, length %d", last.b[0], l.left)
	}
	return fmt.Sprintf("length %d", l.left)
}

// header adds one header. It returns false if the header is incomplete.
func (l *liner) header(h layer) bool {
	least := map[kind]int{ipv4: 20, ipv6: 40, extension: 2, tcp: 20, udp: 8, sctp: 12, icmpv4: 8, icmpv6: 8, arp: 28,
		vxlan: 8, ethernet: 14}[h.kind]
	if !h.has(least) && (h.kind != tcp || !h.has(8)) {
		return false
	}
	switch h.kind {
	case ipv4, ipv6:
		l.addresses(h)
	case tcp, udp, sctp:
		l.ports(h)
	case icmpv4, icmpv6:
		l.ends(0, 0)
		l.message(h)
	case vxlan:
		l.add("VXLAN %d", binary.BigEndian.Uint32(h.b[4:])>>8)
	case arp:
		l.arp(h.b)
	}
	return true
}

func (l *liner) addresses(h layer) {
	if l.pair { // in IP in IP
		l.ends(0, 0)
	}
	name := "IP"
	if h.kind == ipv4 {
		l.from, l.to = netip.AddrFrom4([4]byte(h.b[12:])), netip.AddrFrom4([4]byte(h.b[16:]))
	} else {
		name, l.from, l.to = "IP6", netip.AddrFrom16([16]byte(h.b[8:])), netip.AddrFrom16([16]byte(h.b[24:]))
	}
	l.out.WriteString(name + " ")
	l.pair = true
}

func (l *liner) ports(h layer) {
	l.ends(binary.BigEndian.Uint16(h.b), binary.BigEndian.Uint16(h.b[2:]))
	switch {
	case h.kind == tcp && h.has(20):
		l.add("%s", segment(h, l.left))
	case h.kind == tcp:
		l.add("TCP, seq %d", binary.BigEndian.Uint32(h.b[4:]))
	case h.kind == udp:
		l.add("UDP, length %d", max(l.left-8, 0))
	default:
		l.add("SCTP, length %d", l.left)
	}
}

// segment formats a TCP header. left is the length of the header and the payload.
func segment(h layer, left int) string {
	var flags []byte
	for i, letter := range []byte("FSRP.UEW") {
		if h.b[13]&(1<<i) != 0 {
			flags = append(flags, letter)
		}
	}
	length := max(left-h.head, 0)
	text := fmt.Sprintf("Flags [%s], seq %d", flags, binary.BigEndian.Uint32(h.b[4:]))
	if h.b[13]&flagACK != 0 {
		text += fmt.Sprintf(", ack %d", binary.BigEndian.Uint32(h.b[8:]))
	}
	return text + fmt.Sprintf(", win %d, length %d", binary.BigEndian.Uint16(h.b[14:]), length)
}

// unreachable names the codes of ICMP destination unreachable (RFC 792, RFC 1812).
var unreachable = map[uint8]string{0: "net", 1: "host", 2: "protocol", 3: "port", 4: "too big",
	9: "net prohibited", 10: "host prohibited", 13: "admin prohibited"}

// unreachable6 names the codes of ICMPv6 destination unreachable (RFC 4443).
var unreachable6 = map[uint8]string{0: "no route", 1: "admin prohibited", 3: "address", 4: "port", 5: "source policy",
	6: "reject route"}

func (l *liner) message(h layer) {
	typ, code := h.b[0], h.b[1]
	name := func(codes map[uint8]string) string {
		if text := codes[code]; text != "" {
			return text
		}
		return fmt.Sprint("code ", code)
	}
	request, reply := echoTypes(h.kind)
	text := fmt.Sprintf("type %d, code %d", typ, code)
	v6 := h.kind == icmpv6
	switch {
	case typ == request || typ == reply:
		what := map[uint8]string{request: "request", reply: "reply"}[typ]
		text = fmt.Sprintf("echo %s, id %d, seq %d", what, binary.BigEndian.Uint16(h.b[4:]), binary.BigEndian.Uint16(h.b[6:]))
	case !v6 && typ == 3 && code == 4:
		text = fmt.Sprintf("unreachable (too big, mtu %d)", binary.BigEndian.Uint16(h.b[6:]))
	case !v6 && typ == 3:
		text = "unreachable (" + name(unreachable) + ")"
	case v6 && typ == 1:
		text = "unreachable (" + name(unreachable6) + ")"
	case v6 && typ == 2:
		text = fmt.Sprintf("too big, mtu %d", binary.BigEndian.Uint32(h.b[4:]))
	case !v6 && typ == 11, v6 && typ == 3:
		text = "time exceeded"
	case v6 && typ == neighbourSolicitation && h.has(24):
		text = fmt.Sprintf("neighbour solicitation, who has %s", netip.AddrFrom16([16]byte(h.b[8:])))
	case v6 && typ == neighbourAdvertisement && h.has(24):
		text = fmt.Sprintf("neighbour advertisement, it is %s", netip.AddrFrom16([16]byte(h.b[8:])))
	}
	l.add("ICMP%s %s, length %d", map[bool]string{true: "6"}[v6], text, l.left)
}

func (l *liner) arp(b []byte) {
	from, to := netip.AddrFrom4([4]byte(b[14:])), netip.AddrFrom4([4]byte(b[24:]))
	switch binary.BigEndian.Uint16(b[6:]) {
	case 1:
		l.add("ARP, who has %s, tell %s", to, from)
	case 2:
		l.add("ARP, %s is at %x:%x:%x:%x:%x:%x", from, b[8], b[9], b[10], b[11], b[12], b[13])
	default:
		l.add("ARP, operation %d", binary.BigEndian.Uint16(b[6:]))
	}
}
