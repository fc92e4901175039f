package capture

import (
	"encoding/binary"
	"slices"
)

// EtherTypes of network headers.
const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	etherARP  = 0x0806
)

// Protocol numbers in an IP header.
const (
	protoHopByHop    = 0
	protoICMP        = 1
	protoIPIP        = 4
	protoTCP         = 6
	protoUDP         = 17
	protoIPv6        = 41
	protoRouting     = 43
	protoFragment    = 44
	protoICMPv6      = 58
	protoDestination = 60
	protoSCTP        = 132
)

// defaultVXLAN is Calico's default VXLAN port.
const defaultVXLAN = 4789

// kind is the kind of a layer.
type kind int

const (
	ipv4 kind = iota
	ipv6
	extension // IPv6 extension headers
	tcp
	udp
	sctp
	icmpv4
	icmpv6
	arp
	vxlan
	ethernet
)

// layer is one header of a packet. In a truncated or malformed packet, head may be larger than the
// number of bytes available.
type layer struct {
	kind kind
	b    []byte // from its first byte to the end of the packet
	head int    // length of the header in bytes
}

// rest returns the bytes after a header.
func (l layer) rest() []byte { return l.b[min(l.head, len(l.b)):] }

// has reports whether the layer contains at least n bytes.
func (l layer) has(n int) bool { return len(l.b) >= n }

// maxLayers is more than any packet in a cluster has. A VXLAN packet quoted in an ICMP error has ten layers.
const maxLayers = 16

// dissection walks through the headers of a packet.
type dissection struct {
	vxlan  []uint16 // ports of VXLAN
	layers []layer
}

// dissect lists the headers of a packet, starting with the outermost. It also parses the inner packets of IP in IP,
// VXLAN and ICMP errors.
func dissect(protocol uint16, b []byte, vxlan []uint16) []layer {
	d := dissection{vxlan: vxlan}
	d.network(protocol, b)
	return d.layers
}

// add records a header, and reports whether the header has its minimum length.
func (d *dissection) add(k kind, b []byte, least, head int) bool {
	if len(b) == 0 || len(d.layers) == maxLayers {
		return false
	}
	d.layers = append(d.layers, layer{k, b, max(least, head)})
	return len(b) >= least
}

func (d *dissection) network(protocol uint16, b []byte) {
	switch protocol {
	case etherARP:
		d.add(arp, b, 28, 28)
	case etherIPv4:
		if len(b) == 0 || !d.add(ipv4, b, 20, int(b[0]&0xf)*4) {
			return
		}
		if fragment := binary.BigEndian.Uint16(b[6:]) & 0x1fff; fragment == 0 {
			d.transport(b[9], d.layers[len(d.layers)-1].rest())
		}
	case etherIPv6:
		if d.add(ipv6, b, 40, 40) {
			d.transport(b[6], b[40:])
		}
	}
}

// transport parses the protocol that an IP header specifies.
func (d *dissection) transport(protocol uint8, b []byte) {
	switch protocol {
	case protoTCP:
		head := 20
		if len(b) > 12 {
			head = int(b[12]>>4) * 4
		}
		d.add(tcp, b, 20, head)
	case protoUDP:
		if d.add(udp, b, 8, 8) && slices.Contains(d.vxlan, binary.BigEndian.Uint16(b[2:])) {
			d.tunnelled(b[8:])
		}
	case protoSCTP:
		d.add(sctp, b, 12, 12)
	case protoICMP:
		if d.add(icmpv4, b, 8, 8) && isError(icmpv4, b[0]) {
			d.network(etherIPv4, b[8:])
		}
	case protoICMPv6:
		d.icmpv6(b)
	case protoIPIP:
		d.network(etherIPv4, b)
	case protoIPv6:
		d.network(etherIPv6, b)
	case protoHopByHop, protoRouting, protoDestination, protoFragment:
		d.extension(protocol, b)
	}
}

// extension parses one IPv6 extension header.
func (d *dissection) extension(protocol uint8, b []byte) {
	head := 8
	if protocol != protoFragment && len(b) > 1 {
		head = (int(b[1]) + 1) * 8
	}
	before := d.layers[len(d.layers)-1].kind
	if before != ipv6 && before != extension || !d.add(extension, b, 8, head) {
		return
	}
	if protocol == protoFragment && binary.BigEndian.Uint16(b[2:])&^7 != 0 {
		return
	}
	d.transport(b[0], d.layers[len(d.layers)-1].rest())
}

// icmpv6 parses an ICMPv6 message. It treats neighbour discovery messages as headers, but not the DNS names in a
// router advertisement.
func (d *dissection) icmpv6(b []byte) {
	head := 8
	if len(b) > 0 {
		switch b[0] {
		case 134: // router advertisement
			head = 16
		case neighbourSolicitation, neighbourAdvertisement: // with one option, a link-layer address
			head = 32
		case 137: // redirect
			head = 40
		}
	}
	if d.add(icmpv6, b, 8, head) && isError(icmpv6, b[0]) {
		d.network(etherIPv6, b[8:])
	}
}

// Types of ICMPv6.
const (
	neighbourSolicitation  = 135
	neighbourAdvertisement = 136
)

// errorTypes returns the types of ICMP messages that quote the packet that caused them.
func errorTypes(k kind) []uint8 {
	if k == icmpv6 {
		return []uint8{1, 2, 3, 4}
	}
	return []uint8{3, 4, 5, 11, 12}
}

func isError(k kind, typ uint8) bool { return slices.Contains(errorTypes(k), typ) }

// echoTypes returns the types of echo requests and echo replies.
func echoTypes(k kind) (request, reply uint8) {
	if k == icmpv6 {
		return 128, 129
	}
	return 8, 0
}

// tunnelled parses the inner packet of a VXLAN packet. A packet to the VXLAN port counts as VXLAN
// if only its VNI flag is set.
func (d *dissection) tunnelled(b []byte) {
	if len(b) < 8 || b[0] != 0x08 || !d.add(vxlan, b, 8, 8) {
		return
	}
	if frame := b[8:]; d.add(ethernet, frame, 14, 14) {
		d.network(binary.BigEndian.Uint16(frame[12:]), frame[14:])
	}
}

// headers copies a packet up to the end of its last header. The copy omits names and payload, which come after
// that. headers zeroes the TCP digests of BGP sessions that have a password, because an attacker can guess the
// password from a digest.
func headers(protocol uint16, b []byte, vxlan []uint16) []byte {
	layers := dissect(protocol, b, vxlan)
	if len(layers) == 0 {
		return nil
	}
	last := layers[len(layers)-1]
	end := min(len(b)-len(last.b)+last.head, len(b))
	out := slices.Clone(b[:end])
	for _, l := range layers {
		if l.kind == tcp {
			at := len(b) - len(l.b)
			blank(out[min(at, end):min(at+l.head, end)])
		}
	}
	return out
}

// Options of TCP.
const (
	optionEnd    = 0
	optionNop    = 1
	optionMSS    = 2
	optionDigest = 19 // TCP-MD5
	optionAuth   = 29 // TCP-AO
)

// blank zeroes the digests in a TCP header.
func blank(header []byte) {
	tcpOptions(header, func(option uint8, value []byte) {
		switch {
		case option == optionDigest:
			clear(value)
		case option == optionAuth && len(value) > 2: // after the key IDs
			clear(value[2:])
		}
	})
}

// tcpOptions calls each for every option of a TCP header. If the header is truncated, it stops at the end of the data.
func tcpOptions(header []byte, each func(option uint8, value []byte)) {
	for rest := header[min(20, len(header)):]; len(rest) > 0 && rest[0] != optionEnd; {
		if rest[0] == optionNop {
			rest = rest[1:]
			continue
		}
		if len(rest) < 2 || rest[1] < 2 {
			return
		}
		n := min(int(rest[1]), len(rest))
		each(rest[0], rest[2:n])
		rest = rest[n:]
	}
}
