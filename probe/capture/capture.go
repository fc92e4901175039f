// Package capture reads packets of a node from a packet socket: those of a host and a port, or those of a flow that
// the probe sends itself. The kernel drops all other packets before this process reads them (filter.go). Of the rest
// only headers are kept (layers.go), unless the payload is requested.
//
//	c, err := capture.Open(capture.Options{Hosts: []netip.Addr{a}, Port: 80, Packets: 1000})
//	defer c.Close()
//	for {
//		p, err := c.Next(ctx) // until ctx ends
//		...
//	}
//
// The socket changes nothing: interfaces are not made promiscuous. An outgoing packet is seen after the firewall and
// the queues of its interface. An incoming packet is seen before the firewall, on each interface that it passes.
//
// A Writer sends packets to the client. The client's Reader validates them, because an attacker may control the node.
package capture

import (
	"fmt"
	"net/netip"
	"time"
)

// Bounds of one capture.
const (
	MaxPackets = 20_000
	maxHosts   = 8
	maxPorts   = 4        // of VXLAN
	maxBytes   = 16 << 20 // of packets with their payload

	// headersLen is what the kernel hands over of a packet whose payload is not wanted: longer than the headers of TCP
	// in IPv6 in VXLAN in IPv6, with options.
	headersLen = 256
	wholeLen   = 9216 // a jumbo frame
)

// ErrFull is why a Capture gives no more packets before its time is over.
var ErrFull = fmt.Errorf("the limit of %d MiB of packets", maxBytes>>20)

// Options say what is captured.
type Options struct {
	Interface string       // "" = all
	Hosts     []netip.Addr // from or to one of them; none = any
	Port      uint16       // of TCP, UDP or SCTP, at either end; 0 = any
	Protocol  string       // one of Protocols(), "" = any
	Mark      Mark         // 0 = none: Hosts are then those whose neighbour discovery is captured too
	Payload   bool         // and not only headers
	Packets   int          // at most
}

// Protocols are what Options.Protocol takes.
func Protocols() []string { return []string{"tcp", "udp", "sctp", "icmp"} }

// Packet is one that was seen.
type Packet struct {
	Time      time.Time
	Interface string
	Direction Direction
	Protocol  uint16 // what an Ethernet header calls it: 0x0800 is IPv4
	Device    uint16 // the kind of interface, as the kernel numbers them (ARPHRD_): 1 is Ethernet
	From      []byte // the address in the link's header of who sent it, where it has one
	Length    int    // from its network header on
	Data      []byte // its network header and what follows, as far as it is kept
	Discovery bool   // it asks for a neighbour or tells of one; not said by a Writer
}

// Direction is the kernel's own type of a packet (PACKET_HOST and those that follow in linux/if_packet.h).
type Direction uint8

// Directions with a meaning of their own here.
const (
	In      Direction = 0
	toAll   Direction = 1
	toGroup Direction = 2
	toOther Direction = 3
	Out     Direction = 4
)

// String is as tcpdump has it: B and M are broadcast and multicast that came in, P is for another machine.
func (d Direction) String() string {
	switch d {
	case In:
		return "In"
	case Out:
		return "Out"
	case toAll:
		return "B"
	case toGroup:
		return "M"
	case toOther:
		return "P"
	}
	return "?"
}
