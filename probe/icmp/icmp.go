// Package icmp pings many addresses at the same time. Ping uses one socket for each address family and sends
// several packets to each address. It matches replies by number.
//
//	stats, err := icmp.Ping(ctx, []netip.Addr{a, b}, icmp.Usual) // err: no packet could be sent
//	if stats[0].Received == 0 && stats[0].Bounced != "" { ... } // a router answered in its place
package icmp

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/calico-probe/calico-probe/probe"
)

// Pace is the number of packets to send to each address, and the interval between them.
type Pace struct {
	Packets int
	Every   time.Duration
	ID      uint16 // the ID of the echoes, by which other programs can identify them; 0 = any
}

// The usual paces. If every address answers, Usual takes 0.4 seconds, Quick a third and Brisk a tenth of that. Quick is
// for a second node, for which the user waits after the first.
var (
	Usual = Pace{Packets: 5, Every: 100 * time.Millisecond}
	Quick = Pace{Packets: 5, Every: 30 * time.Millisecond}
	Brisk = Pace{Packets: 3, Every: 20 * time.Millisecond}
)

// Wait is the time to wait for the answer to the last packet.
const Wait = time.Second

// Stats describes the replies from one address.
type Stats struct {
	Addr          netip.Addr
	Sent          int // number of attempts, including packets that could not leave
	Refused       int // number of packets that could not leave this node
	Received      int
	Min, Avg, Max time.Duration // of the replies, zero if there was no reply
	// Refusal is the reason why a packet could not leave this node. It is "net-unreachable", "host-unreachable" and so
	// on, in the words of probe.Reason. It is "denied" if the node's own firewall blocked the packet, "blackhole", or
	// "too-big" for the outgoing interface. It is "" if all packets could leave.
	Refusal string
	// Bounced is the error that a router or the peer sent instead of a reply: "destination unreachable from 10.0.0.1,
	// code 13 (administratively prohibited)". It is "" if there was no such error.
	Bounced string
	// Cut is true if the context ended before the wait for answers was over.
	Cut bool
	// TooBig is true if a router rejected a packet as too big. ReportedMTU is the MTU in that error, or 0 if the
	// error does not contain an MTU.
	TooBig      bool
	ReportedMTU int

	sum time.Duration
}

// errNoSocket reports that this process is not allowed to open an ICMP socket.
var errNoSocket = errors.New("no permission to open an ICMP socket")

// Ping sends echo requests to each address at the given pace. All addresses belong to one family. It collects replies
// until Wait after the last request, or until ctx ends. It returns an error if it could not send anything.
func Ping(ctx context.Context, addrs []netip.Addr, pace Pace) ([]Stats, error) {
	if len(addrs) == 0 {
		return nil, nil
	}
	p, err := listen(addrs[0].Is4() || addrs[0].Is4In6())
	if err != nil {
		return nil, err
	}
	p.packets, p.every, p.wait, p.payload = pace.Packets, pace.Every, Wait, 56
	p.id = cmp.Or(pace.ID, p.id)
	return p.ping(ctx, addrs), nil
}

// One sends one echo request to an address and waits for the answer. If size is not zero, it is the size of the
// whole IP packet, which must not be fragmented.
func One(ctx context.Context, addr netip.Addr, size int, wait time.Duration) (Stats, error) {
	return Burst(ctx, addr, size, Pace{Packets: 1}, wait)
}

// Burst does the same as One, but with several packets at the given pace. wait is the time to wait for the last answer.
func Burst(ctx context.Context, addr netip.Addr, size int, pace Pace, wait time.Duration) (Stats, error) {
	p, err := listen(addr.Is4() || addr.Is4In6())
	if err != nil {
		return Stats{}, err
	}
	p.packets, p.every, p.wait, p.payload = pace.Packets, pace.Every, wait, 56
	if size > 0 {
		err = p.whole(size)
	}
	if err != nil {
		p.conn.Close()
		return Stats{}, err
	}
	return p.ping(ctx, []netip.Addr{addr})[0], nil
}

// Marked sends echo requests at the given pace. Their payload begins with mark.
func Marked(ctx context.Context, addr netip.Addr, mark uint64, pace Pace) (Stats, error) {
	p, err := listen(addr.Is4() || addr.Is4In6())
	if err != nil {
		return Stats{}, err
	}
	p.packets, p.every, p.wait, p.payload, p.nonce = pace.Packets, pace.Every, Wait, 56, mark
	return p.ping(ctx, []netip.Addr{addr})[0], nil
}

// Whole sends three echo requests to an address. Each IP packet has exactly size bytes and must not be fragmented. It
// ignores the path MTU that the kernel has cached. One reply is enough. wait is the time to wait for the last answer.
func Whole(ctx context.Context, addr netip.Addr, size int, wait time.Duration) (Stats, error) {
	p, err := listen(addr.Is4() || addr.Is4In6())
	if err != nil {
		return Stats{}, err
	}
	p.packets, p.every, p.wait = Brisk.Packets, Brisk.Every, wait
	if err := p.whole(size); err != nil {
		p.conn.Close()
		return Stats{}, err
	}
	return p.ping(ctx, []netip.Addr{addr})[0], nil
}

// Fragmented sends three echo requests of size bytes to an address. The kernel fragments them as the MTU requires.
// It waits for the last answer.
func Fragmented(ctx context.Context, addr netip.Addr, size int, wait time.Duration) (Stats, error) {
	p, err := listen(addr.Is4() || addr.Is4In6())
	if err != nil {
		return Stats{}, err
	}
	p.packets, p.every, p.wait = Brisk.Packets, Brisk.Every, wait
	p.sized(size)
	return p.ping(ctx, []netip.Addr{addr})[0], nil
}

// sized makes every packet size bytes long.
func (p *pinger) sized(size int) {
	head := ipv6.HeaderLen
	if p.v4 {
		head = ipv4.HeaderLen
	}
	p.payload = size - head - 8
}

// whole makes every packet exactly size bytes long, and forbids fragmentation.
func (p *pinger) whole(size int) error {
	p.sized(size)
	err := p.unfragmented()
	switch {
	case p.payload < 8:
		return fmt.Errorf("no room for a ping in %d bytes", size)
	case !p.raw: // the kernel hides router errors from this kind of socket
		return fmt.Errorf("%w that receives router errors", errNoSocket)
	}
	return err
}

// ping sends the configured pings, and then closes the pinger. One goroutine alternates between sending and reading.
// Even on a slow machine, the answers to the packets in transit therefore always fit in the socket buffer.
func (p *pinger) ping(ctx context.Context, addrs []netip.Addr) []Stats {
	p.stats = make([]Stats, len(addrs))
	for i, a := range addrs {
		p.stats[i].Addr = a
	}
	p.sentAt = make([]time.Time, len(addrs)*p.packets)
	p.seen = make([]bool, len(p.sentAt))
	defer p.conn.Close()
	defer context.AfterFunc(ctx, func() { _ = p.conn.SetReadDeadline(time.Now()) })()
	p.send(ctx)
	p.linger(ctx)
	cut := ctx.Err() != nil
	for i := range p.stats {
		s := &p.stats[i]
		s.Cut = cut
		if s.Received > 0 {
			s.Avg = s.sum / time.Duration(s.Received)
		}
	}
	return p.stats
}

type pinger struct {
	conn  *icmp.PacketConn
	v4    bool
	raw   bool // a raw socket; otherwise a datagram socket, whose ID the kernel sets
	id    uint16
	nonce uint64 // included in every payload: an echo without it belongs to another program

	packets     int // number of packets to each address
	every, wait time.Duration
	payload     int // number of payload bytes in an echo

	stats    []Stats
	sentAt   []time.Time // by sequence number: target*packets + packet
	seen     []bool
	answered int
}

// listen opens a raw socket. If only a datagram socket is permitted, it opens that.
func listen(v4 bool) (*pinger, error) {
	p := &pinger{v4: v4, raw: true, id: uint16(rand.Uint32()), nonce: rand.Uint64()}
	networks, all := [2]string{"ip6:ipv6-icmp", "udp6"}, "::"
	if v4 {
		networks, all = [2]string{"ip4:icmp", "udp4"}, "0.0.0.0"
	}
	var err error
	if p.conn, err = icmp.ListenPacket(networks[0], all); err == nil {
		p.filter()
		return p, nil
	}
	p.raw = false
	var second error
	if p.conn, second = icmp.ListenPacket(networks[1], all); second == nil {
		return p, nil
	}
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("%w: raw: %w; datagram: %w", errNoSocket, err, second)
	}
	return nil, fmt.Errorf("opening an ICMP socket: %w", err)
}

// filter limits the socket to packets that this package reads. This is necessary because the socket's buffer is
// small, and on a busy node a raw socket sees every ICMP packet. On systems that have no such filter, this package
// reads other packets and drops them.
func (p *pinger) filter() {
	if c := p.conn.IPv4PacketConn(); c != nil {
		var f ipv4.ICMPFilter
		f.SetAll(true)
		f.Accept(ipv4.ICMPTypeEchoReply)
		f.Accept(ipv4.ICMPTypeDestinationUnreachable)
		f.Accept(ipv4.ICMPTypeTimeExceeded)
		_ = c.SetICMPFilter(&f)
	}
	if c := p.conn.IPv6PacketConn(); c != nil {
		var f ipv6.ICMPFilter
		f.SetAll(true)
		f.Accept(ipv6.ICMPTypeEchoReply)
		f.Accept(ipv6.ICMPTypeDestinationUnreachable)
		f.Accept(ipv6.ICMPTypePacketTooBig)
		f.Accept(ipv6.ICMPTypeTimeExceeded)
		_ = c.SetICMPFilter(&f)
	}
}

// burst is the number of packets that are sent before answers are read. Answers to more than a few hundred packets
// would overflow the socket's buffer (net.core.rmem_default, about 270 packets), and would count as lost.
const burst = 16

// send spreads each round of packets evenly over time, and reads answers in between. After a delay, it does not send
// all missed packets at once.
func (p *pinger) send(ctx context.Context) {
	next, gap := time.Now(), p.every*burst/time.Duration(len(p.stats))
	for round := range p.packets {
		began := next
		for i := range p.stats {
			if i%burst == 0 && (i > 0 || round > 0) {
				p.read(ctx, next, nil)
				if ctx.Err() != nil {
					return
				}
				if late := time.Since(next); late > 0 {
					next, began = next.Add(late), began.Add(late)
				}
			}
			p.sendOne(i, i*p.packets+round)
			if i%burst == burst-1 {
				next = next.Add(gap)
			}
		}
		next = began.Add(p.every)
	}
}

func (p *pinger) sendOne(target, seq int) {
	payload := make([]byte, p.payload)
	binary.BigEndian.PutUint64(payload, p.nonce)
	msg := icmp.Message{Type: ipv6.ICMPTypeEchoRequest, Body: &icmp.Echo{ID: int(p.id), Seq: seq, Data: payload}}
	if p.v4 {
		msg.Type = ipv4.ICMPTypeEcho
	}
	packet, err := msg.Marshal(nil)
	s := &p.stats[target]
	if err == nil {
		p.sentAt[seq] = time.Now()
		_, err = p.conn.WriteTo(packet, p.to(s.Addr))
	}
	s.Sent++
	if err != nil {
		s.Refused++
		s.Refusal = refusal(err)
	}
}

// refusal returns the reason why a packet could not leave. If a local firewall drops the packet, the kernel reports
// EPERM. For a blackhole route, it reports EINVAL.
func refusal(err error) string {
	switch {
	case errors.Is(err, syscall.EPERM):
		return "denied"
	case errors.Is(err, syscall.EINVAL):
		return "blackhole"
	case errors.Is(err, syscall.EMSGSIZE):
		return "too-big"
	}
	return probe.Reason(err)
}

func (p *pinger) to(a netip.Addr) net.Addr {
	if p.raw {
		return &net.IPAddr{IP: a.AsSlice(), Zone: a.Zone()}
	}
	return &net.UDPAddr{IP: a.AsSlice(), Zone: a.Zone()}
}

// linger waits for the answers that are still in transit.
func (p *pinger) linger(ctx context.Context) {
	sent := 0
	for _, s := range p.stats {
		sent += s.Sent - s.Refused
	}
	p.read(ctx, time.Now().Add(p.wait), func() bool { return p.answered >= sent })
}
