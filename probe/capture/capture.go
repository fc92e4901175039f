// Package capture reads a node's packets from a packet socket. It captures packets of a host and port, or of a flow
// that the probe itself sends. The kernel drops all other packets before this process can read them (filter.go). The
// package keeps only the headers of the remaining packets (layers.go), unless the caller requests the payload.
//
//	c, err := capture.Open(capture.Options{Hosts: []netip.Addr{a}, Port: 80, Packets: 1000})
//	defer c.Close()
//	for {
//		p, err := c.Next(ctx) // until ctx ends
//		...
//	}
//
// The socket does not change the node: it does not set interfaces to promiscuous mode. It sees an outgoing packet
// after the firewall and after the queues of the packet's interface. It sees an incoming packet before the firewall,
// on each interface that the packet passes.
//
// A Writer sends packets to the client. The client's Reader validates them, because an attacker may control the node.
package capture

import (
	"fmt"
	"net/netip"
	"time"
)

// Limits of one capture.
const (
	MaxPackets = 20_000
	maxHosts   = 8
	maxPorts   = 4        // VXLAN ports
	maxBytes   = 16 << 20 // for packets with their payload

	// headersLen is the number of bytes of a packet that the kernel returns if the payload is not requested. It exceeds
	// the headers of TCP in IPv6 in VXLAN in IPv6, including options.
	headersLen = 256
	wholeLen   = 9216 // the size of a jumbo frame
)

// ErrFull reports that a Capture stopped early because it reached its size limit.
var ErrFull = fmt.Errorf("the limit of %d MiB of packets", maxBytes>>20)

// Options select the packets to capture.
type Options struct {
	Interface string       // "" = all interfaces
	Hosts     []netip.Addr // the source or destination is one of them; none = any
	Port      uint16       // TCP, UDP or SCTP port at either end; 0 = any
	Protocol  string       // one of Protocols(), "" = any
	Mark      Mark         // 0 = no mark; with a mark, Hosts only selects additional neighbour discovery
	Payload   bool         // also keep the payload, not only the headers
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
	Length    int    // length of the packet, starting at the network header
	Data      []byte // the packet, starting at the network header, possibly truncated
	Discovery bool   // true for ARP or neighbour discovery; a Writer does not send this field
}

// Direction is the kernel's packet type (PACKET_HOST and the constants after it in linux/if_packet.h).
type Direction uint8

// The directions that this package distinguishes.
const (
	In      Direction = 0
	toAll   Direction = 1
	toGroup Direction = 2
	toOther Direction = 3
	Out     Direction = 4
)

// String returns the word that tcpdump uses. B and M are incoming broadcast and multicast. P is a
// packet for another machine.
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
