package icmp

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestLoopback needs a raw socket, or a group that may open datagram ones
// (net.ipv4.ping_group_range).
func TestLoopback(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "::1"} {
		t.Run(addr, func(t *testing.T) {
			stats, err := Ping(t.Context(), []netip.Addr{netip.MustParseAddr(addr), netip.MustParseAddr(addr)}, Usual)
			if errors.Is(err, errNoSocket) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range stats {
				if s.Sent != Usual.Packets || s.Received != Usual.Packets || s.Min <= 0 || s.Min > s.Avg || s.Avg > s.Max ||
					s.Refusal != "" || s.Bounced != "" {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

func TestWhole(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "::1"} {
		s, err := Whole(t.Context(), netip.MustParseAddr(addr), 9000, time.Second)
		if errors.Is(err, errNoSocket) || errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil || s.Sent != Brisk.Packets || s.Received != Brisk.Packets || s.TooBig {
			t.Errorf("%s: %+v, %v", addr, s, err)
		}
		if _, err := Whole(t.Context(), netip.MustParseAddr(addr), 30, time.Second); err == nil {
			t.Errorf("%s: pinged in 30 bytes", addr)
		}
	}
}

func TestNobody(t *testing.T) {
	if stats, err := Ping(t.Context(), nil, Usual); err != nil || stats != nil {
		t.Error(stats, err)
	}
}

func TestStopped(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), Usual.Every/2)
	defer cancel()
	began := time.Now()
	stats, err := Ping(ctx, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Usual)
	if errors.Is(err, errNoSocket) {
		t.Skip(err)
	}
	if err != nil || stats[0].Sent != 1 {
		t.Errorf("%+v, %v", stats, err)
	}
	if took := time.Since(began); took > Wait {
		t.Errorf("a stopped ping took %v", took)
	}
}

// TestTimeExceeded distinguishes a routing loop from incomplete fragments.
func TestTimeExceeded(t *testing.T) {
	quote := make([]byte, ipv4.HeaderLen+8)
	quote[0] = 0x45
	for code, want := range map[int]string{0: "the packet was in a routing loop", 1: "fragments did not arrive"} {
		packet := must.Get((&icmp.Message{Type: ipv4.ICMPTypeTimeExceeded, Code: code,
			Body: &icmp.TimeExceeded{Data: quote}}).Marshal(nil))(t)
		p := &pinger{v4: true, packets: 1, stats: make([]Stats, 1), sentAt: make([]time.Time, 1), seen: make([]bool, 1)}
		p.take(packet, &net.IPAddr{IP: net.IPv4(10, 0, 0, 1)}, time.Now())
		if got := p.stats[0].Bounced; !strings.Contains(got, want) ||
			!strings.Contains(got, "time exceeded at 10.0.0.1") {
			t.Errorf("code %d: %q", code, got)
		}
	}
}

// TestForeignReplies feeds replies to other programs' packets, which a raw socket receives too. Only the reply with
// this pinger's nonce, and the error that quotes its ID, count.
func TestForeignReplies(t *testing.T) {
	t.Parallel()
	const nonce, id = 0x0102030405060708, 77
	own := binary.BigEndian.AppendUint64(nil, nonce)
	for name, c := range map[string]struct {
		payload []byte
		quoted  uint16 // the ID that an error quotes
		counts  bool
	}{
		"our reply":                   {payload: own, counts: true},
		"our reply, with more in it":  {payload: append(slices.Clone(own), 1, 2, 3), counts: true},
		"a reply with another nonce":  {payload: binary.BigEndian.AppendUint64(nil, nonce+1)},
		"a reply without payload":     {},
		"a reply with half the nonce": {payload: own[:4]},
		"an error about our packet":   {quoted: id, counts: true},
		"an error about another one":  {quoted: id + 1},
	} {
		for _, v4 := range []bool{true, false} {
			p := &pinger{v4: v4, id: id, nonce: nonce, packets: 1, stats: make([]Stats, 1),
				sentAt: []time.Time{time.Now()}, seen: make([]bool, 1)}
			packet := must.Get(answer(v4, c.quoted, c.payload).Marshal(nil))(t)
			p.take(packet, &net.IPAddr{IP: net.IPv4(10, 0, 0, 1)}, time.Now())
			s := p.stats[0]
			if got := s.Received == 1 || s.Bounced != ""; got != c.counts || p.seen[0] != c.counts {
				t.Errorf("%s (IPv4: %v): counted %v, want %v: %+v", name, v4, got, c.counts, s)
			}
		}
	}
}

// answer returns an echo reply with a payload, or an error that quotes an echo request with an ID that is not zero.
func answer(v4 bool, quoted uint16, payload []byte) *icmp.Message {
	m, head := &icmp.Message{Type: ipv4.ICMPTypeEchoReply}, []byte{0x45, ipv4.HeaderLen - 1: 0}
	if !v4 {
		m, head = &icmp.Message{Type: ipv6.ICMPTypeEchoReply}, []byte{0x60, ipv6.HeaderLen - 1: 0}
	}
	m.Body = &icmp.Echo{Data: payload}
	if quoted != 0 {
		m.Type, m.Code = ipv4.ICMPTypeDestinationUnreachable, 1
		if !v4 {
			m.Type = ipv6.ICMPTypeDestinationUnreachable
		}
		echo := []byte{8, 0, 0, 0, byte(quoted >> 8), byte(quoted), 0, 0}
		m.Body = &icmp.DstUnreach{Data: append(head, echo...)}
	}
	return m
}

// FuzzTake feeds packets that anybody on the network could send.
func FuzzTake(f *testing.F) {
	f.Add([]byte{3, 1, 0, 0, 0, 0, 0, 0, 0x45, 0, 0, 84}, true)
	f.Add([]byte{0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, true)
	f.Add([]byte{3, 4, 0, 0, 0, 0, 5, 0x78, 0x45, 0, 0, 84}, true)
	f.Add([]byte{2, 0, 0, 0, 0, 0, 5, 0x78, 0x60}, false)
	f.Add([]byte{1, 4, 0, 0, 0, 0, 0, 0, 0x60}, false)
	f.Fuzz(func(t *testing.T, packet []byte, v4 bool) {
		const packets = 5
		p := &pinger{v4: v4, nonce: 1, packets: packets, stats: make([]Stats, 1), sentAt: make([]time.Time, packets),
			seen: make([]bool, packets)}
		p.sentAt[0] = time.Now()
		p.take(packet, nil, time.Now())
		if p.stats[0].Received > 1 {
			t.Errorf("one packet counted %d times", p.stats[0].Received)
		}
	})
}
