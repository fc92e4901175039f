package icmp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// The minimum duration of a read, and how late a read may end before it is repeated. On a busy machine, the socket
// may have filled up in the meantime.
const (
	minRead = time.Millisecond
	heldUp  = 5 * time.Millisecond
)

// read receives packets until the given time, until ctx ends or until done is closed (nil: never). It always reads
// packets that have already arrived.
func (p *pinger) read(ctx context.Context, until time.Time, done func() bool) {
	until = later(until, time.Now().Add(minRead))
	buf := make([]byte, 1500)
	_ = p.conn.SetReadDeadline(until) // fails only if the socket is closed, in which case reading fails as well
	for ctx.Err() == nil && (done == nil || !done()) {
		n, from, err := p.conn.ReadFrom(buf)
		switch {
		case err == nil:
			p.take(buf[:n], from, time.Now())
		case errors.Is(err, net.ErrClosed):
			return
		case errors.Is(err, os.ErrDeadlineExceeded) && time.Since(until) < heldUp:
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			until = time.Now().Add(minRead)
			_ = p.conn.SetReadDeadline(until)
		} // otherwise, it is an ICMP error about one packet, reported by the kernel
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (p *pinger) take(packet []byte, from net.Addr, at time.Time) {
	proto := ipv6.ICMPTypeEchoReply.Protocol()
	if p.v4 {
		proto = ipv4.ICMPTypeEchoReply.Protocol()
	}
	msg, err := icmp.ParseMessage(proto, packet)
	if err != nil {
		return
	}
	switch body := msg.Body.(type) {
	case *icmp.Echo:
		reply := msg.Type == ipv4.ICMPTypeEchoReply || msg.Type == ipv6.ICMPTypeEchoReply
		if reply && len(body.Data) >= 8 && binary.BigEndian.Uint64(body.Data) == p.nonce {
			p.echo(body.Seq, at)
		}
	case *icmp.DstUnreach:
		const fragNeeded = 4
		tooBig := p.v4 && msg.Code == fragNeeded
		mtu := 0
		if tooBig { // RFC 1191 puts the MTU in a field that RFC 792 left unused
			mtu = int(binary.BigEndian.Uint16(packet[6:]))
		}
		text, _ := Unreachable(msg.Code, p.v4)
		p.bounced(body.Data, fmt.Sprintf("destination unreachable from %s, code %d (%s)", from, msg.Code, text),
			tooBig, mtu)
	case *icmp.TimeExceeded:
		why := "the packet was in a routing loop"
		if msg.Code == 1 { // fragment reassembly (RFC 792, RFC 4443)
			why = "some of the packet's fragments did not arrive there"
		}
		p.bounced(body.Data, fmt.Sprintf("time exceeded at %s: %s", from, why), false, 0)
	case *icmp.PacketTooBig:
		p.bounced(body.Data, fmt.Sprintf("packet too big from %s", from), true, body.MTU)
	}
}

// meaning describes a code of "destination unreachable".
type meaning struct {
	text     string
	firewall bool
}

// RFC 792 and 1812, RFC 4443.
var (
	unreachable4 = map[int]meaning{0: {"network unreachable", false}, 1: {"host unreachable", false},
		3: {"port unreachable", true}, 4: {"too big, and must not be fragmented", false},
		9: {"network prohibited", true}, 10: {"host prohibited", true}, 13: {"administratively prohibited", true}}
	unreachable6 = map[int]meaning{0: {"no route", false}, 1: {"administratively prohibited", true},
		3: {"address unreachable", false}, 4: {"port unreachable", true},
		5: {"source address refused by policy", true}, 6: {"route rejected", true}}
)

// Unreachable describes the codes of the ICMP message "destination unreachable". If the host itself rejects a
// connection, it sends a reset. A "port unreachable" comes from the REJECT rule of a firewall.
func Unreachable(code int, v4 bool) (text string, firewall bool) {
	words := unreachable6
	if v4 {
		words = unreachable4
	}
	if known := words[code]; known.text != "" {
		return known.text, known.firewall
	}
	return fmt.Sprintf("destination unreachable, code %d", code), false
}

func (p *pinger) echo(seq int, at time.Time) {
	if seq >= len(p.seen) || p.seen[seq] || p.sentAt[seq].IsZero() {
		return
	}
	p.seen[seq] = true
	p.answered++
	s, rtt := &p.stats[seq/p.packets], at.Sub(p.sentAt[seq])
	s.Received++
	s.sum += rtt
	s.Max = max(s.Max, rtt)
	if s.Min == 0 || rtt < s.Min {
		s.Min = rtt
	}
}

// bounced finds the packet of ours that an error message quotes. The quote contains an IP header and at least
// eight bytes of the echo request.
func (p *pinger) bounced(quote []byte, words string, tooBig bool, mtu int) {
	header := ipv6.HeaderLen
	if p.v4 {
		if len(quote) == 0 {
			return
		}
		header = int(quote[0]&0x0f) * 4
	}
	if len(quote) < header+8 {
		return
	}
	id, seq := binary.BigEndian.Uint16(quote[header+4:]), int(binary.BigEndian.Uint16(quote[header+6:]))
	if id != p.id || seq >= len(p.seen) || p.seen[seq] {
		return
	}
	p.seen[seq] = true
	p.answered++
	s := &p.stats[seq/p.packets]
	s.Bounced = words
	if tooBig {
		s.TooBig, s.ReportedMTU = true, mtu
	}
}
