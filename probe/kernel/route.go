package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Packet is the input for RouteOf.
type Packet struct {
	To, From netip.Addr // if From is invalid, the kernel chooses the source
	In       string     // the incoming interface, "" = this machine sends the packet
}

// Route is an entry in a routing table, or the kernel's decision for a Packet.
type Route struct {
	To     netip.Prefix
	Type   int // type of the route: Blackhole, ...; 0 is a normal route, which forwards packets
	Hops   []Hop
	Proto  int // who created the route, see ProtocolName
	Source netip.Addr
	Metric int
	MTU    int
	Scope  string // "" if the scope is global
	Table  int
}

// Hop is one next hop of a route. The route for a Packet has exactly one next hop.
type Hop struct {
	Gateway netip.Addr // invalid if the target is on the link
	Device  string
	Flags   string // the flags that matter for faults: "dead", "linkdown", "onlink"
}

// The types of routes that have a name in this package (linux/rtnetlink.h).
const (
	Local     = 2
	Blackhole = 6
)

// types describes the effects of special route types (linux/rtnetlink.h).
var types = map[int]string{Local: "local", 3: "broadcast", 4: "anycast", 5: "multicast", Blackhole: "blackhole",
	7: "unreachable", 8: "prohibit", 9: "throw", 10: "nat"}

// TypeName returns the effect of a special route, or "" for a normal route.
func (r Route) TypeName() string { return types[r.Type] }

// The numbers that the kernel uses for its tables (rtnetlink(7)).
const (
	tableDefault = 253
	TableMain    = 254
	TableLocal   = 255
)

// Tables maps the names of routing tables to their numbers.
var Tables = map[string]int{"main": TableMain, "local": TableLocal, "default": tableDefault}

// Protocols maps the creators of routes to their numbers (linux/rtnetlink.h). 80 is Felix's default
// (felix/dataplane/linux, DefaultRouteProto).
var Protocols = map[string]int{
	"unspec": 0, "redirect": 1, "kernel": 2, "boot": 3, "static": 4, "gated": 8, "ra": 9, "mrt": 10, "zebra": 11,
	"bird": 12, "dnrouted": 13, "xorp": 14, "ntk": 15, "dhcp": 16, "mrouted": 17, "keepalived": 18, "babel": 42,
	"felix": 80, "bgp": 186, "isis": 187, "ospf": 188, "rip": 189, "eigrp": 192,
}

// ProtocolName returns who creates the routes of a protocol.
func ProtocolName(n int) string {
	for name, is := range Protocols {
		if is == n {
			return name
		}
	}
	return strconv.Itoa(n)
}

// ErrNoInterface reports that the interface of a Packet does not exist.
var ErrNoInterface = errors.New("no such interface")

// errChanged reports that a table changed each time it was listed, so entries may be missing.
var errChanged = errors.New("it changed while it was listed, so entries may be missing: run it again")

// String formats the route as one line, like 'ip route'.
func (r Route) String() string {
	var b strings.Builder
	if name := r.TypeName(); name != "" {
		b.WriteString(name + " ")
	}
	if r.To.Bits() == 0 {
		b.WriteString("default")
	} else if r.To.IsSingleIP() {
		b.WriteString(r.To.Addr().String())
	} else {
		b.WriteString(r.To.String())
	}
	for i, h := range r.Hops {
		if len(r.Hops) > 1 {
			fmt.Fprintf(&b, " hop %d", i+1)
		}
		b.WriteString(h.text())
	}
	if r.Proto != 0 { // the routes that RouteOf composes have no creator
		fmt.Fprintf(&b, " proto %s", ProtocolName(r.Proto))
	}
	if r.Scope != "" {
		fmt.Fprintf(&b, " scope %s", r.Scope)
	}
	if r.Source.IsValid() {
		fmt.Fprintf(&b, " src %s", r.Source)
	}
	if r.Metric != 0 {
		fmt.Fprintf(&b, " metric %d", r.Metric)
	}
	if r.MTU != 0 {
		fmt.Fprintf(&b, " mtu %d", r.MTU)
	}
	if r.Table != TableMain && r.Table != 0 {
		fmt.Fprintf(&b, " table %d", r.Table)
	}
	return b.String()
}

func (h Hop) text() string {
	var b strings.Builder
	if h.Gateway.IsValid() {
		fmt.Fprintf(&b, " via %s", h.Gateway)
	}
	if h.Device != "" {
		fmt.Fprintf(&b, " dev %s", h.Device)
	}
	if h.Flags != "" {
		b.WriteString(" " + h.Flags)
	}
	return b.String()
}
