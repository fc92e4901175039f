package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Packet is what RouteOf asks about.
type Packet struct {
	To, From netip.Addr // From may be invalid: then the kernel chooses
	In       string     // the interface it comes in by, "" = this machine sends it
}

// Route is an entry of a routing table, or what the kernel makes of one for a Packet.
type Route struct {
	To     netip.Prefix
	Type   int // of route: Blackhole, ...; 0 is the usual one, by which packets go on
	Hops   []Hop
	Proto  int // who made it, see ProtocolName
	Source netip.Addr
	Metric int
	MTU    int
	Scope  string // "" when it is global
	Table  int
}

// Hop is one of the next hops of a route. The route of a Packet has exactly one.
type Hop struct {
	Gateway netip.Addr // invalid when the target is on the link
	Device  string
	Flags   string // those that matter when a fault is looked for: "dead", "linkdown", "onlink"
}

// Types of routes that are named here (linux/rtnetlink.h).
const (
	Local     = 2
	Blackhole = 6
)

// types are what routes of other types than the usual one do (linux/rtnetlink.h).
var types = map[int]string{Local: "local", 3: "broadcast", 4: "anycast", 5: "multicast", Blackhole: "blackhole",
	7: "unreachable", 8: "prohibit", 9: "throw", 10: "nat"}

// TypeName is what a route of another type than the usual one does, "" for the usual one.
func (r Route) TypeName() string { return types[r.Type] }

// The kernel's numbers for its tables (rtnetlink(7)).
const (
	tableDefault = 253
	TableMain    = 254
	TableLocal   = 255
)

// Tables are the names of routing tables.
var Tables = map[string]int{"main": TableMain, "local": TableLocal, "default": tableDefault}

// Protocols are who makes routes (linux/rtnetlink.h); 80 is Felix's own choice
// (felix/dataplane/linux, DefaultRouteProto).
var Protocols = map[string]int{
	"unspec": 0, "redirect": 1, "kernel": 2, "boot": 3, "static": 4, "gated": 8, "ra": 9, "mrt": 10, "zebra": 11,
	"bird": 12, "dnrouted": 13, "xorp": 14, "ntk": 15, "dhcp": 16, "mrouted": 17, "keepalived": 18, "babel": 42,
	"felix": 80, "bgp": 186, "isis": 187, "ospf": 188, "rip": 189, "eigrp": 192,
}

// ProtocolName is who makes routes of a protocol.
func ProtocolName(n int) string {
	for name, is := range Protocols {
		if is == n {
			return name
		}
	}
	return strconv.Itoa(n)
}

// ErrNoInterface says that the interface of a Packet is not there.
var ErrNoInterface = errors.New("no such interface")

// errChanged says that a table changed each time it was listed, so that entries may be missing.
var errChanged = errors.New("it changed while it was listed, so some may be missing: run it again")

// String is the route in one line, as 'ip route' would put it.
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
	if r.Proto != 0 { // nobody made what RouteOf composes
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
