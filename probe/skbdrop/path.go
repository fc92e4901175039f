package skbdrop

import (
	"cmp"
	"slices"
	"time"
)

// Way is the role that a packet has for the sender.
type Role string

// The values of Way.
const (
	Sent     Role = "sent"     // a packet that we sent
	Answer   Role = "answer"   // the answer to our packet
	Rejected Role = "rejected" // an ICMP error about our packet, or about the answer
)

// Noun returns the word for such a packet.
func (w Role) Noun() string {
	return map[Role]string{Sent: "packet", Answer: "answer", Rejected: "ICMP error"}[w]
}

// Path is the path of one packet, from place to place in chronological order.
type Path struct {
	Role  Role
	Steps []Event
	// Arrived is true if the kernel delivered the packet. If it is false, delivery was not visible.
	Arrived bool
}

// End returns the last place where the packet was seen.
func (p Path) End() Event { return p.Steps[len(p.Steps)-1] }

// packet identifies the events of one packet.
type packet struct {
	roleOf Role
	seq    uint32
	kind   uint8
}

// copies is the time after which a packet that looks the same counts as a new packet. TCP retransmits after 200
// ms at the earliest.
const copies = 100 * time.Millisecond

// Flags of TCP.
const (
	syn = 0x02
	rst = 0x04
)

// Paths groups the events in a trace by packet, in the order in which packets were first seen. ports are our own TCP
// source ports. For TCP, it shows only the handshake. It recognises an echo by its type.
func Paths(events []Event, ports ...uint16) []Path {
	open := map[packet]int{}
	var out []Path
	for _, e := range events {
		if e.Protocol == TCP && e.Kind != Dropped && e.Type&(syn|rst) == 0 {
			continue // packets after the handshake all look the same
		}
		key := packet{roleOf(e, ports), e.Seq, e.Type}
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
			out = append(out, Path{Role: key.roleOf})
		}
		out[i].Steps = append(out[i].Steps, e)
	}
	return out
}

func roleOf(e Event, ports []uint16) Role {
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

// delivered reports whether an event belongs to a packet that has arrived, although the kernel calls the event a
// drop. After our sockets have received their copies of an echo reply, the kernel also looks for a socket of the kind
// that ping(8) may have.
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

// repeats reports whether a new packet that looks the same has begun, because it is seen in the
// same place again or much later.
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

// Group is a set of packets with the same path.
type Group struct {
	Path        // time of the first packet
	Count       int
	First, Last time.Duration // times of the last steps
}

// Groups counts identical paths. Packets that we sent come first, and among them the most frequent path.
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
	order := []Role{Sent, Answer, Rejected}
	slices.SortStableFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Role), slices.Index(order, b.Role)), cmp.Compare(b.Count, a.Count))
	})
	return out
}

func (p Path) same(q Path) bool {
	return p.Role == q.Role && p.Arrived == q.Arrived && slices.EqualFunc(p.Steps, q.Steps, func(a, b Event) bool {
		return a.samePlace(b) && a.TTL == b.TTL && a.Reason == b.Reason && a.Function() == b.Function() &&
			a.Hook() == b.Hook()
	})
}
