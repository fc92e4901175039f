package skbdrop

import (
	"net/netip"
	"testing"
	"time"
)

// step is an event of an echo, or of its reply.
func step(at time.Duration, kind Kind, device string, index uint32, seq uint32, reply bool) Event {
	e := Event{At: at, Kind: kind, Interface: device, Index: index, Namespace: 1, Seq: seq, Protocol: ICMP, Type: 8}
	if reply {
		e.Type = 0
	}
	return e
}

func TestPaths(t *testing.T) {
	lost := func(at time.Duration, seq uint32) Event {
		e := step(at, Dropped, "cali12", 2, seq, false)
		e.Reason, e.Calls = "NETFILTER_DROP", []string{"nft_do_chain", "nf_hook_slow", "ip_forward.isra.0"}
		return e
	}
	delivered := step(9, Dropped, "eth0", 3, 2, true)
	delivered.Reason, delivered.Calls = "NO_SOCKET", []string{"ping_rcv", "icmp_rcv"}
	paths := Paths([]Event{
		step(1, Left, "eth0", 3, 0, false), step(2, Left, "eth0", 3, 1, false), // two at once
		step(3, Came, "cali12", 2, 1, false), step(4, Came, "cali12", 2, 0, false),
		lost(5, 0), lost(6, 1),
		step(7, Left, "eth0", 3, 2, false), step(8, Came, "eth0", 3, 2, true), delivered,
	})
	groups := Groups(paths)
	if len(paths) != 4 || len(groups) != 3 {
		t.Fatalf("%d paths in %d groups, want 4 in 3: %+v", len(paths), len(groups), groups)
	}
	g := groups[0]
	if g.Count != 2 || g.Role != Sent || g.End().Hook() != "FORWARD" || g.First != 5 || g.Last != 6 || g.Arrived {
		t.Errorf("%+v", g)
	}
	if a := groups[2]; a.Role != Answer || !a.Arrived || len(a.Steps) != 1 {
		t.Errorf("the answer, whose end is no drop: %+v", a)
	}
}

// TestSentAgain distinguishes a retransmitted TCP packet from the first.
func TestSentAgain(t *testing.T) {
	syn := func(at time.Duration, kind Kind) Event {
		return Event{At: at, Kind: kind, Interface: "eth0", Index: 2, Protocol: TCP, Type: 2, Seq: 4711, Reason: "NO_SOCKET",
			Src: netip.MustParseAddrPort("10.0.0.1:4000"), Dst: netip.MustParseAddrPort("10.0.0.2:80")}
	}
	paths := Paths([]Event{syn(0, Left), syn(1, Dropped), syn(time.Second, Left), syn(time.Second+1, Dropped)}, 4000)
	if len(paths) != 2 || paths[0].Role != Sent || len(paths[1].Steps) != 2 {
		t.Errorf("%+v", paths)
	}
	if alone := Paths([]Event{syn(0, Dropped), syn(time.Second, Dropped)}, 4000); len(alone) != 2 {
		t.Errorf("dropped before they left: %+v", alone)
	}
	if answer := Paths([]Event{syn(0, Left)}, 5000); answer[0].Role != Answer {
		t.Errorf("%+v", answer)
	}
}

func TestFilter(t *testing.T) {
	a := netip.MustParseAddr("10.0.0.1")
	for _, f := range []Filter{
		{Protocol: ICMP}, {Protocol: 99, Addrs: []netip.Addr{a}},
		{Protocol: ICMP, Addrs: []netip.Addr{a, a, a, a, a}},
		{Protocol: ICMP, Addrs: []netip.Addr{a}, Numbers: make([]uint16, 9)},
	} {
		if f.valid() == nil {
			t.Errorf("%+v is taken", f)
		}
	}
}
