// Package capture reads packets of a node from a packet socket: packets of a host and port, or of a flow that the probe
// sends itself. The kernel drops all other packets before this process reads them (filter.go). Only the headers of the
// remaining packets are kept (layers.go), unless the payload is requested.
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

	// headersLen is how much of a packet the kernel returns without the payload. It exceeds the headers of TCP in IPv6 in
	// VXLAN in IPv6, with options.
	headersLen = 256
	wholeLen   = 9216 // a jumbo frame
)

// ErrFull reports that a Capture stopped early because it reached its size limit.
var ErrFull = fmt.Errorf("the limit of %d MiB of packets", maxBytes>>20)

// Options select the packets to capture.
type Options struct {
	Interface string       // "" = all
	Hosts     []netip.Addr // source or destination is one of them; none = any
	Port      uint16       // of TCP, UDP or SCTP, at either end; 0 = any
	Protocol  string       // one of Protocols(), "" = any
	Mark      Mark         // 0 = no mark; with a mark, Hosts only selects additional neighbour discovery
	Payload   bool         // keep the payload too, not only headers
	Packets   int          // maximum number of packets
}

// Protocols returns the valid values of Options.Protocol.
func Protocols() []string { return []string{"tcp", "udp", "sctp", "icmp"} }

// Packet is one captured packet.
type Packet struct {
	Time      time.Time
	Interface string
	Direction Direction
	Protocol  uint16 // the EtherType: 0x0800 is IPv4
	Device    uint16 // the interface type (ARPHRD_ number): 1 is Ethernet
	From      []byte // the sender's link-layer address, if the link has one
	Length    int    // length from the network header on
	Data      []byte // from the network header on, possibly truncated
	Discovery bool   // it is ARP or neighbour discovery; a Writer does not send this
}

// Direction is the kernel's type of a packet (PACKET_HOST and the following in linux/if_packet.h).
type Direction uint8

// The directions that this package distinguishes.
const (
	In      Direction = 0
	toAll   Direction = 1
	toGroup Direction = 2
	toOther Direction = 3
	Out     Direction = 4
)

// String returns tcpdump's word. B and M are incoming broadcast and multicast, P is for another machine.
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
