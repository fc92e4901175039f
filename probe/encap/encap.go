// Package encap proves that tunnel packets pass from one node to another. One probe sends a token to the tunnel's port
// or protocol (Send). Another probe waits for it (Listen). The listener watches two places: the interfaces, and the
// point behind the firewall. This distinguishes packets lost on the way from packets that the node itself drops.
package encap

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Path is one path that tunnel packets may take.
type Path struct {
	From, To netip.Addr
	Port     int // UDP port; 0 = IPIP, which is IPv4 in IPv4 without a port
}

// Arrival describes what happened to a token.
type Arrival struct {
	Wire   bool // the token arrived on an interface of the node
	Passed bool // the node's firewall accepted the token
}

const (
	protoUDP  = 17
	protoIPIP = 4

	packets = 3
	every   = 100 * time.Millisecond
)

// ErrRefused reports that the kernel did not send a packet, because it has no route or because the
// node's own firewall forbids the packet.
var ErrRefused = errors.New("packets cannot leave")

// Send sends a token several times. Any error other than ErrRefused means that sending was impossible.
func Send(ctx context.Context, path Path, token uint32) error {
	write, done, err := path.open()
	if err != nil {
		return err
	}
	defer done()
	for range packets {
		if err := write(path.packet(token)); err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
	return nil
}

// open creates the sending socket. It does not read replies.
func (p Path) open() (write func([]byte) error, done func(), err error) {
	var conn net.PacketConn
	var to net.Addr
	if p.Port == 0 {
		conn, err = net.ListenIP("ip4:4", &net.IPAddr{IP: p.From.AsSlice()})
		to = &net.IPAddr{IP: p.To.AsSlice()}
	} else {
		conn, err = net.ListenUDP("udp", &net.UDPAddr{IP: p.From.AsSlice()})
		to = net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.To, uint16(p.Port)))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("sending from %s: %w", p.From, err)
	}
	return func(b []byte) error { _, err := conn.WriteTo(b, to); return err }, func() { conn.Close() }, nil
}

// packet returns a packet that does no harm to a tunnel that receives it. A VXLAN packet has an invalid VNI, a
// WireGuard packet has an unknown type, and an IPIP packet has a header without a checksum.
func (p Path) packet(token uint32) []byte {
	if p.Port == 0 {
		const ttl, experimental = 1, 253 // RFC 3692
		inner := make([]byte, innerLen)
		inner[0], inner[8], inner[9] = 0x45, ttl, experimental
		from, to := p.From.As4(), p.To.As4()
		copy(inner[12:], from[:])
		copy(inner[16:], to[:])
		inner = binary.BigEndian.AppendUint32(inner, token)
		binary.BigEndian.PutUint16(inner[2:], uint16(len(inner)))
		return inner
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, blankLen), token), "calico-probe"...)
}

const (
	innerLen = 20 // in the IPv4 header inside IPIP
	blankLen = 8  // zeros before the token, in the place of a tunnel's own header
)
