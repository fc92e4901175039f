// Package icmp pings many addresses at once: one socket for each family, several
// packets for each address, replies told apart by number.
package icmp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/calico-probe/calico-probe/probe"
)

// How a ping is done. Ten targets take half a second and a wait.
const (
	Packets = 5
	Every   = 100 * time.Millisecond
	Wait    = time.Second // for the answer to the last packet
)

// Stats is what came back from one address.
type Stats struct {
	Addr          netip.Addr
	Sent          int // tried, whether the packet could leave or not
	Refused       int // of these, could not leave this node
	Received      int
	Min, Avg, Max time.Duration // of the replies, zero without one
	// Refusal is why a packet could not leave this node: "net-unreachable",
	// "host-unreachable" and so on in probe.Reason's words, "denied" by its own
	// firewall, "blackhole", "too-big" for the device it would leave by; "" when all could.
	Refusal string
	// Bounced is what a router or the peer answered instead: "destination
	// unreachable from 10.0.0.1, code 13 (administratively prohibited)"; "" when nobody did.
	Bounced string
	// Cut says that the context ended before the time for answers had passed.
	Cut bool
	// TooBig says that a router sent back a packet as too big for its way on, and
	// Told what it said would fit, 0 when it did not say.
	TooBig bool
	Told   int

	sum time.Duration
}

// ErrNoSocket says that this process may not open an ICMP socket.
var ErrNoSocket = errors.New("no right to open an ICMP socket")

// Ping sends Packets echo requests to each address, all of one family, and
// collects the replies until Wait after the last one or the end of ctx. The
// error says that nothing could be asked at all.
func Ping(ctx context.Context, addrs []netip.Addr) ([]Stats, error) {
	if len(addrs) == 0 {
		return nil, nil
	}
	p, err := listen(addrs[0].Is4() || addrs[0].Is4In6())
	if err != nil {
		return nil, err
	}
	p.packets, p.every, p.wait, p.payload = Packets, Every, Wait, 56
	return p.ping(ctx, addrs), nil
}

// How a Whole ping is done: any one that comes back will do.
const (
	wholePackets = 3
	wholeEvery   = 20 * time.Millisecond
)

// One sends one echo request to an address and waits for its answer. A size that is not
// zero is that of the whole IP packet, which nobody may fragment.
func One(ctx context.Context, addr netip.Addr, size int, wait time.Duration) (Stats, error) {
	p, err := listen(addr.Is4() || addr.Is4In6())
	if err != nil {
		return Stats{}, err
	}
	p.packets, p.wait, p.payload = 1, wait, 56
	if size > 0 {
		err = p.whole(size)
	}
	if err != nil {
		p.conn.Close()
		return Stats{}, err
	}
	return p.ping(ctx, []netip.Addr{addr})[0], nil
}

// Whole sends three echo requests to an address as IP packets of exactly size
// bytes that nobody may fragment, whatever is already known about the path. It
// waits for the last one's answer as long as told.
func Whole(ctx context.Context, addr netip.Addr, size int, wait time.Duration) (Stats, error) {
	p, err := listen(addr.Is4() || addr.Is4In6())
	if err != nil {
		return Stats{}, err
	}
	p.packets, p.every, p.wait = wholePackets, wholeEvery, wait
	if err := p.whole(size); err != nil {
		p.conn.Close()
		return Stats{}, err
	}
	return p.ping(ctx, []netip.Addr{addr})[0], nil
}

// whole has every packet be of exactly size bytes, and not fragmented.
func (p *pinger) whole(size int) error {
	head := ipv6.HeaderLen
	if p.v4 {
		head = ipv4.HeaderLen
	}
	p.payload = size - head - 8
	err := p.unfragmented()
	switch {
	case p.payload < 8:
		return fmt.Errorf("no room for a ping in %d bytes", size)
	case !p.raw: // the kernel keeps what routers say from it
		return fmt.Errorf("%w that hears routers", ErrNoSocket)
	}
	return err
}

// ping does what the pinger is set to, and closes it.
func (p *pinger) ping(ctx context.Context, addrs []netip.Addr) []Stats {
	p.stats = make([]Stats, len(addrs))
	for i, a := range addrs {
		p.stats[i].Addr = a
	}
	p.sentAt = make([]time.Time, len(addrs)*p.packets)
	p.seen = make([]bool, len(p.sentAt))
	var reader sync.WaitGroup
	reader.Go(p.receive)
	p.send(ctx)
	p.linger(ctx)
	cut := ctx.Err() != nil
	p.conn.Close() // ends the reader
	reader.Wait()
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
	raw   bool // a raw socket; otherwise a datagram one, whose ID the kernel sets
	id    uint16
	nonce uint64 // in every payload: an echo without it is not ours

	packets     int // to each address
	every, wait time.Duration
	payload     int // bytes of an echo's own

	mu       sync.Mutex
	stats    []Stats
	sentAt   []time.Time // by sequence number: target*packets + packet
	seen     []bool
	answered int
}

// listen opens a raw socket, or a datagram one where only that is allowed.
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
		return nil, fmt.Errorf("%w: raw: %w; datagram: %w", ErrNoSocket, err, second)
	}
	return nil, fmt.Errorf("opening an ICMP socket: %w", err)
}

// filter lets only what this package reads into the socket's buffer, which is
// small: on a busy node a raw socket sees every ICMP packet there is. Where the
// system has no such filter, more is read and thrown away.
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

// burst is how many packets leave at once. Answers to more than a few hundred
// overflow the socket's buffer (net.core.rmem_default, about 270 packets), and
// would be called lost.
const burst = 16

// send spreads each round of packets evenly over its time.
func (p *pinger) send(ctx context.Context) {
	began := time.Now()
	wait := func(at time.Duration) bool {
		if late := time.Since(began.Add(at)); late > 0 {
			began = began.Add(late) // held up: what was missed must not leave all at once
		}
		select {
		case <-time.After(time.Until(began.Add(at))):
			return true
		case <-ctx.Done():
			return false
		}
	}
	for round := range p.packets {
		for i := range p.stats {
			if i%burst == 0 && i > 0 && !wait(time.Duration(round)*p.every+p.every*time.Duration(i)/time.Duration(len(p.stats))) {
				return
			}
			p.sendOne(i, i*p.packets+round)
		}
		if round+1 < p.packets && !wait(time.Duration(round+1)*p.every) {
			return
		}
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
	p.mu.Lock()
	defer p.mu.Unlock()
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

// refusal is the reason a packet could not leave. The kernel reports a local
// firewall that drops it as EPERM, and a route of type blackhole as EINVAL.
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

// linger waits for the answers that are still on their way.
func (p *pinger) linger(ctx context.Context) {
	deadline := time.NewTimer(p.wait)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		p.mu.Lock()
		sent := 0
		for _, s := range p.stats {
			sent += s.Sent - s.Refused
		}
		done := p.answered >= sent
		p.mu.Unlock()
		if done {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// receive takes packets until the socket is closed.
func (p *pinger) receive() {
	buf := make([]byte, 1500)
	for {
		n, from, err := p.conn.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error of one packet, reported by the kernel
		}
		p.take(buf[:n], from, time.Now())
	}
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
		told := 0
		if tooBig { // RFC 1191: in what RFC 792 left unused
			told = int(binary.BigEndian.Uint16(packet[6:]))
		}
		text, _ := Unreachable(msg.Code, p.v4)
		p.bounced(body.Data, fmt.Sprintf("destination unreachable from %s, code %d (%s)", from, msg.Code, text), tooBig, told)
	case *icmp.TimeExceeded:
		why := "the packet went in circles"
		if msg.Code == 1 { // of putting fragments together (RFC 792, RFC 4443)
			why = "some of the packet's fragments did not arrive there"
		}
		p.bounced(body.Data, fmt.Sprintf("time exceeded at %s: %s", from, why), false, 0)
	case *icmp.PacketTooBig:
		p.bounced(body.Data, fmt.Sprintf("packet too big from %s", from), true, body.MTU)
	}
}

// meaning is that of a code of "destination unreachable".
type meaning struct {
	text     string
	firewall bool
}

// RFC 792 and 1812, RFC 4443.
var (
	unreachable4 = map[int]meaning{0: {"network unreachable", false}, 1: {"host unreachable", false}, 3: {"port unreachable", true}, 4: {"too big, and not to be fragmented", false}, 9: {"network prohibited", true}, 10: {"host prohibited", true}, 13: {"administratively prohibited", true}}
	unreachable6 = map[int]meaning{0: {"no route", false}, 1: {"administratively prohibited", true}, 3: {"address unreachable", false}, 4: {"port unreachable", true}, 5: {"source address refused by policy", true}, 6: {"route rejected", true}}
)

// Unreachable puts the codes of ICMP's "destination unreachable" into words. A host that
// has the address answers a connection it does not want with a reset: "port
// unreachable" in its place is what a firewall's REJECT says.
func Unreachable(code int, v4 bool) (text string, firewall bool) {
	words := unreachable6
	if v4 {
		words = unreachable4
	}
	if said := words[code]; said.text != "" {
		return said.text, said.firewall
	}
	return fmt.Sprintf("destination unreachable, code %d", code), false
}

func (p *pinger) echo(seq int, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
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

// bounced reads which of our packets an error message quotes: an IP header, then
// at least the eight bytes of the echo request's own.
func (p *pinger) bounced(quote []byte, words string, tooBig bool, told int) {
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if id != p.id || seq >= len(p.seen) || p.seen[seq] {
		return
	}
	p.seen[seq] = true
	p.answered++
	s := &p.stats[seq/p.packets]
	s.Bounced = words
	if tooBig {
		s.TooBig, s.Told = true, told
	}
}
