package skbdrop

import (
	"cmp"
	"slices"
	"time"
)

// Way is what a packet is to who asks.
type Way string

// The ways of a packet.
const (
	Sent     Way = "sent"     // by us
	Answer   Way = "answer"   // to that
	Rejected Way = "rejected" // an ICMP error about what we sent, or about the answer
)

// Noun is what such a packet is called.
func (w Way) Noun() string {
	return map[Way]string{Sent: "packet", Answer: "answer", Rejected: "ICMP error"}[w]
}

// Path is what became of one packet, from place to place in the order of time.
type Path struct {
	Way   Way
	Steps []Event
	// Arrived tells that the kernel gave the packet to whom it was for; false = that does not show.
	Arrived bool
}

// End is the last place in which the packet was seen.
func (p Path) End() Event { return p.Steps[len(p.Steps)-1] }

// packet is by what events are known to be of one packet.
type packet struct {
	way  Way
	seq  uint32
	kind uint8
}

// copies is how long after one packet another one that looks the same is a new one: TCP sends again after 200 ms at the
// soonest.
const copies = 100 * time.Millisecond

// Flags of TCP.
const (
	syn = 0x02
	rst = 0x04
)

// Paths puts the events of a trace together, each packet's by itself, in the order in which they were first seen. The
// ports are ours, from which TCP was sent, of which the handshake is shown; an echo is known by its type.
func Paths(events []Event, ports ...uint16) []Path {
	open := map[packet]int{}
	var out []Path
	for _, e := range events {
		if e.Protocol == TCP && e.Kind != Dropped && e.Type&(syn|rst) == 0 {
			continue // what comes after the handshake looks alike
		}
		key := packet{way(e, ports), e.Seq, e.Type}
		i, known := open[key]
		if e.delivered() {
			if known {
				out[i].Arrived = true
			}
			continue
		}
		if !known || out[i].repeats(e) {
			i = len(out)
			open[key] = i
			out = append(out, Path{Way: key.way})
		}
		out[i].Steps = append(out[i].Steps, e)
	}
	return out
}

func way(e Event, ports []uint16) Way {
	switch {
	case e.Quoted:
		return Rejected
	case e.Protocol == TCP:
		if slices.Contains(ports, e.Src.Port()) {
			return Sent
		}
		return Answer
	case e.Type == 8 || e.Type == 128:
		return Sent
	}
	return Answer
}

// delivered tells of what the kernel calls a drop, and is the end of a packet that has arrived. To an echo's reply it
// looks for a socket of the kind that ping(8) may have, when sockets of the kind that we have got theirs already.
func (e Event) delivered() bool {
	if e.Kind != Dropped {
		return false
	}
	calls := func(names ...string) bool {
		return slices.ContainsFunc(e.Calls, func(c string) bool { return slices.Contains(names, bare(c)) })
	}
	return e.Reason == "QUEUE_PURGE" || calls("inet_sock_destruct", "inet_csk_destroy_sock") ||
		calls("ping_rcv") && (e.Reason == "NO_SOCKET" || e.Reason == "NOT_SPECIFIED")
}

// repeats tells that a packet that looks the same has begun: it is seen again where it was, or long after.
func (p Path) repeats(e Event) bool {
	last := p.End()
	if last.Kind == Dropped && e.Kind == Dropped {
		return e.At-last.At > copies
	}
	return e.Kind != Dropped && slices.ContainsFunc(p.Steps, e.samePlace)
}

func (e Event) samePlace(f Event) bool {
	return e.Kind == f.Kind && e.Namespace == f.Namespace && e.Index == f.Index && e.Wrapped == f.Wrapped
}

// Group are packets that went the same way.
type Group struct {
	Path        // of the first
	Count       int
	First, Last time.Duration // of their last steps
}

// Groups counts the paths that are the same: what was sent first, and the most frequent of that.
func Groups(paths []Path) []Group {
	var out []Group
	for _, p := range paths {
		i := slices.IndexFunc(out, func(g Group) bool { return g.same(p) })
		if i < 0 {
			i = len(out)
			out = append(out, Group{Path: p, First: p.End().At})
		}
		out[i].Count++
		out[i].Last = p.End().At
	}
	order := []Way{Sent, Answer, Rejected}
	slices.SortStableFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Way), slices.Index(order, b.Way)), cmp.Compare(b.Count, a.Count))
	})
	return out
}

func (p Path) same(q Path) bool {
	return p.Way == q.Way && p.Arrived == q.Arrived && slices.EqualFunc(p.Steps, q.Steps, func(a, b Event) bool {
		return a.samePlace(b) && a.TTL == b.TTL && a.Reason == b.Reason && a.Function() == b.Function() &&
			a.Hook() == b.Hook()
	})
}
