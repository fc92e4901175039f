package capture

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/net/bpf"
)

// maxNested is the maximum number of nested IP headers that the filter examines. An ICMP error in a
// tunnel has three IP headers.
const maxNested = 3

// scratchIP is the scratch register that holds the offset of the current IP header.
const scratchIP = 0

// program is a filter under construction. It jumps only forward, to labels that are set later.
type program struct {
	Options
	ports  []uint16 // VXLAN ports
	code   []bpf.Instruction
	jumps  map[int]string // by the index of a bpf.Jump
	labels map[string]int
}

// filter returns the filter program for packets that start with their network header. It accepts packets that match the
// Options. They may be plain, inside VXLAN or IP in IP, or quoted in an ICMP error. It also accepts neighbour discovery
// for the hosts. For a marked flow, it accepts all packets that may belong to the flow.
func (o Options) filter(vxlan []uint16) ([]bpf.Instruction, error) {
	p := &program{Options: o, ports: vxlan, jumps: map[int]string{}, labels: map[string]int{}}
	p.add(bpf.LoadConstant{Dst: bpf.RegX}, bpf.StoreScratch{Src: bpf.RegX, N: scratchIP})
	for n := range maxNested {
		p.network(n)
	}
	p.label("arp")
	p.arp()
	p.label("no")
	p.add(bpf.RetConstant{})
	p.label("yes")
	p.add(bpf.RetConstant{Val: uint32(o.snapLength())})
	return p.linked()
}

// snapLength returns the number of bytes of a packet that the kernel copies.
func (o Options) snapLength() int {
	if o.Payload {
		return wholeLen
	}
	return headersLen
}

func (p *program) add(code ...bpf.Instruction) { p.code = append(p.code, code...) }

func (p *program) label(name string) { p.labels[name] = len(p.code) }

func (p *program) jump(to string) {
	p.jumps[len(p.code)] = to
	p.add(bpf.Jump{})
}

// when jumps if the comparison with the loaded value is true. A conditional jump has a short range, so when uses it to
// jump over an unconditional jump.
func (p *program) when(cond bpf.JumpTest, value uint32, to string) {
	p.add(bpf.JumpIf{Cond: cond, Val: value, SkipFalse: 1})
	p.jump(to)
}

// load loads the value at an offset from X.
func (p *program) load(offset, size int) { p.add(bpf.LoadIndirect{Off: uint32(offset), Size: size}) }

// atIP sets X to the offset of the IP header.
func (p *program) atIP() { p.add(bpf.LoadScratch{Dst: bpf.RegX, N: scratchIP}) }

// atTransport sets X to the offset of the first byte after an IP header.
func (p *program) atTransport(k kind) {
	p.atIP()
	if k == ipv6 {
		p.add(bpf.TXA{}, bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: 40}, bpf.TAX{})
		return
	}
	p.load(0, 1)
	p.add(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf}, bpf.ALUOpConstant{Op: bpf.ALUOpShiftLeft, Val: 2},
		bpf.ALUOpX{Op: bpf.ALUOpAdd}, bpf.TAX{})
}

// network examines the n-th IP header.
func (p *program) network(n int) {
	name := func(what string) string { return fmt.Sprint(what, n) }
	p.label(name("ip"))
	p.atIP()
	p.load(0, 1)
	p.add(bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 4})
	p.when(bpf.JumpEqual, 4, name("v4-"))
	p.when(bpf.JumpEqual, 6, name("v6-"))
	if n == 0 {
		p.jump("arp")
	} else {
		p.jump("no")
	}
	for _, f := range []family{
		{name("v4-"), ipv4, 9, icmpv4, protoICMP, []int{12, 16}},
		{name("v6-"), ipv6, 6, icmpv6, protoICMPv6, []int{8, 24}},
	} {
		p.label(f.name)
		if p.Mark == 0 {
			p.hosts(f)
			p.label(f.name + "host")
			p.wanted(f)
		} else {
			p.marked(f)
		}
		p.label(f.name + "more")
		if f.ip == ipv6 {
			p.discovery()
		}
		if n < maxNested-1 {
			p.nested(f, n+1)
		}
		p.jump("no")
	}
}

// family describes IPv4 or IPv6 in one of a packet's headers.
type family struct {
	name      string // the prefix of its labels
	ip        kind
	next      int // offset of the protocol number in its header
	icmp      kind
	number    uint32 // protocol number of its ICMP version
	addresses []int  // offsets of the addresses in its header
}

// protocol returns a protocol's number.
func (f family) protocol(name string) uint32 {
	switch name {
	case "tcp":
		return protoTCP
	case "udp":
		return protoUDP
	case "sctp":
		return protoSCTP
	}
	return f.number
}

// hosts jumps to the label "host" if the header's source or destination is one of the hosts.
// Otherwise, it jumps to "more".
func (p *program) hosts(f family) {
	if len(p.Hosts) == 0 {
		p.jump(f.name + "host")
		return
	}
	for _, at := range f.addresses {
		p.addresses(f.ip, at, f.name+"host")
	}
	p.jump(f.name + "more")
}

// addresses jumps if the address at X is one of the hosts.
func (p *program) addresses(k kind, at int, to string) {
	for i, host := range p.Hosts {
		if host.Is6() != (k == ipv6) {
			continue
		}
		other := fmt.Sprint(len(p.code), "not", i)
		b := host.AsSlice()
		for word := 0; word < len(b); word += 4 {
			p.load(at+word, 4)
			p.when(bpf.JumpNotEqual, binary.BigEndian.Uint32(b[word:]), other)
		}
		p.jump(to)
		p.label(other)
	}
}

// wanted jumps to yes if the protocol and port match. Otherwise, it continues. A fragment without a transport header
// matches any port.
func (p *program) wanted(f family) {
	more := f.name + "more"
	if p.Port == 0 && p.Protocol == "" {
		p.jump("yes")
		return
	}
	p.load(f.next, 1)
	if f.ip == ipv6 { // a fragment, whose header contains the protocol
		p.when(bpf.JumpNotEqual, protoFragment, f.name+"whole")
		if p.Protocol != "" {
			p.load(40, 1)
			p.when(bpf.JumpNotEqual, f.protocol(p.Protocol), more)
		}
		p.jump("yes")
		p.label(f.name + "whole")
	}
	if p.Protocol != "" {
		p.when(bpf.JumpNotEqual, f.protocol(p.Protocol), more)
	}
	if p.Port == 0 {
		p.jump("yes")
		return
	}
	for _, n := range []uint32{protoTCP, protoUDP, protoSCTP} {
		p.when(bpf.JumpEqual, n, f.name+"port")
	}
	p.jump(more)
	p.label(f.name + "port")
	if f.ip == ipv4 {
		p.load(6, 2)
		p.when(bpf.JumpBitsSet, fragmentOffset, "yes")
	}
	p.atTransport(f.ip)
	for _, at := range []int{0, 2} {
		p.load(at, 2)
		p.when(bpf.JumpEqual, uint32(p.Port), "yes")
	}
}

// fragmentOffset is the part of the IPv4 header that is non-zero in every fragment except the first.
const fragmentOffset = 0x1fff

// marked jumps to yes if the packet may belong to a marked flow. Such a packet is an echo, or a segment that opens or
// closes a connection. nested handles ICMP errors. flow.go decides whether the packet belongs to the flow, because
// NAT changes addresses and ports and a filter is stateless.
func (p *program) marked(f family) {
	if f.ip == ipv4 {
		p.load(6, 2)
		p.when(bpf.JumpBitsSet, fragmentOffset, "no")
	}
	p.load(f.next, 1)
	p.when(bpf.JumpEqual, protoTCP, f.name+"tcp")
	p.when(bpf.JumpNotEqual, f.number, f.name+"more")
	p.atTransport(f.ip)
	p.load(0, 1)
	request, reply := echoTypes(f.icmp)
	p.when(bpf.JumpEqual, uint32(request), "yes")
	p.when(bpf.JumpEqual, uint32(reply), "yes")
	p.jump(f.name + "more")
	p.label(f.name + "tcp")
	p.atTransport(f.ip)
	p.load(13, 1)
	p.when(bpf.JumpBitsSet, flagFIN|flagSYN|flagRST, "yes")
	p.jump("no")
}

// nested jumps to the inner IP header if the packet is a tunnel packet or an ICMP error.
func (p *program) nested(f family, n int) {
	name := func(what string) string { return f.name + "nested-" + what }
	inside := func(offset uint32) { // X is the offset of the first byte after the header
		p.add(bpf.TXA{}, bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: offset}, bpf.StoreScratch{Src: bpf.RegA, N: scratchIP})
		p.jump(fmt.Sprint("ip", n))
	}
	p.atIP()
	if f.ip == ipv4 {
		p.load(6, 2)
		p.when(bpf.JumpBitsSet, fragmentOffset, "no")
	}
	p.load(f.next, 1)
	p.when(bpf.JumpEqual, protoUDP, name("udp"))
	p.when(bpf.JumpEqual, f.number, name("icmp"))
	p.when(bpf.JumpEqual, protoIPIP, name("ip"))
	p.when(bpf.JumpNotEqual, protoIPv6, "no")
	p.label(name("ip"))
	p.atTransport(f.ip)
	inside(0)
	p.label(name("udp"))
	p.atTransport(f.ip)
	p.load(2, 2)
	for _, port := range p.ports {
		p.when(bpf.JumpEqual, uint32(port), name("vxlan"))
	}
	p.jump("no")
	p.label(name("vxlan"))
	inside(8 + 8 + 14)
	p.label(name("icmp"))
	p.atTransport(f.ip)
	p.load(0, 1)
	for _, typ := range errorTypes(f.icmp) {
		p.when(bpf.JumpEqual, uint32(typ), name("error"))
	}
	p.jump("no")
	p.label(name("error"))
	if p.Mark != 0 { // the quote may contain only eight bytes of a segment
		p.jump("yes")
		return
	}
	inside(8)
}

// discovery jumps to yes if the packet is an IPv6 neighbour solicitation or advertisement for a host. Solicitations go
// to a multicast group, so their destination address does not match.
func (p *program) discovery() {
	if !slices.ContainsFunc(p.Hosts, netip.Addr.Is6) {
		return
	}
	other := fmt.Sprint("discovery", len(p.code))
	p.atIP()
	p.load(6, 1)
	p.when(bpf.JumpNotEqual, protoICMPv6, other)
	p.load(40, 1)
	p.when(bpf.JumpLessThan, neighbourSolicitation, other)
	p.when(bpf.JumpGreaterThan, neighbourAdvertisement, other)
	p.addresses(ipv6, 48, "yes")
	p.label(other)
}

// arp jumps to yes if an ARP message for Ethernet and IPv4 is a request for a host, or the reply to it. X is 0.
func (p *program) arp() {
	p.load(0, 4)
	p.when(bpf.JumpNotEqual, 0x00010800, "no")
	for _, at := range []int{14, 24} {
		p.addresses(ipv4, at, "yes")
	}
}

// linked returns the program after it has resolved the labels.
func (p *program) linked() ([]bpf.Instruction, error) {
	for at, to := range p.jumps {
		there, set := p.labels[to]
		if !set || there <= at {
			return nil, fmt.Errorf("the packet filter jumps from %d to %q, which does not follow it", at, to)
		}
		p.code[at] = bpf.Jump{Skip: uint32(there - at - 1)}
	}
	return p.code, nil
}
