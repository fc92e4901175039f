package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// RouteOf queries the kernel's decision for a packet. matched is the table entry behind the decision, or nil if the
// kernel does not report the entry (before 4.13). An error from the kernel wraps the kernel's errno. For EINVAL, it is
// an *Invalid. ErrNoInterface reports that the interface p.In does not exist.
func RouteOf(p Packet) (way Route, matched *Route, err error) {
	to := p.To.Unmap()
	options := netlink.RouteGetOptions{Iif: p.In}
	if p.From.IsValid() {
		options.SrcAddr = p.From.AsSlice()
	}
	found, err := netlink.RouteGetWithOptions(to.AsSlice(), &options)
	switch {
	case errors.As(err, new(netlink.LinkNotFoundError)):
		return way, nil, ErrNoInterface
	case errors.Is(err, unix.EINVAL):
		return way, nil, fmt.Errorf("looking up the route to %s: %w", to, invalid(p))
	case err != nil:
		return way, nil, fmt.Errorf("looking up the route to %s: %w", to, err)
	case len(found) == 0:
		return way, nil, fmt.Errorf("looking up the route to %s: the kernel returned nothing", to)
	}
	names := devices{}
	way = names.route(found[0], to.Is4())
	if p.From.IsValid() { // the kernel does not return it
		way.Source = p.From
	}
	options.FIBMatch = true
	if found, err = netlink.RouteGetWithOptions(to.AsSlice(), &options); err != nil || len(found) == 0 {
		return way, nil, nil
	}
	entry := names.route(found[0], to.Is4())
	return way, &entry, nil
}

// invalid looks up the tables to find out why the kernel returned EINVAL for a packet.
func invalid(p Packet) *Invalid {
	if from := p.From.Unmap(); from.IsValid() {
		if from.IsMulticast() || from.IsLoopback() || from.IsUnspecified() || from == limitedBroadcast {
			return &Invalid{Means: MeansMartian}
		}
		way, matched, err := RouteOf(Packet{To: from})
		own := err == nil && way.Type == Local
		switch {
		case p.In != "" && own && matched != nil:
			return &Invalid{Means: MeansOwnSource, By: matched}
		case p.In == "" && err == nil && !own:
			return &Invalid{Means: MeansForeignSource}
		}
	}
	to := p.To.Unmap()
	dropping, err := Routes(familyOf(to), 0, maxCovering, func(r Route) bool {
		return r.Type == Blackhole && r.To.Contains(to)
	})
	if err != nil || len(dropping) == 0 {
		return &Invalid{}
	}
	narrowest := slices.MaxFunc(dropping, func(a, b Route) int { return cmp.Compare(a.To.Bits(), b.To.Bits()) })
	return &Invalid{Means: MeansBlackhole, By: &narrowest}
}

var limitedBroadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// maxCovering limits the number of blackhole routes that cover one address. A prefix has at most 129 lengths, and a
// machine has few tables.
const maxCovering = 1000

func familyOf(a netip.Addr) int {
	if a.Is4() {
		return 4
	}
	return 6
}

// Routes lists the wanted routes of a family, 4 or 6, and a table, 0 = all, up to the given number. A table may
// contain a million other routes, which Routes does not keep. If the table changed during each attempt, Routes returns
// the routes that it found together with an error.
func Routes(family, table, most int, wanted func(Route) bool) ([]Route, error) {
	names := namesOf()
	filter := netlink.Route{Table: table}
	out, err := Undisturbed(func() (out []Route, err error) {
		err = netlink.RouteListFilteredIter(addressFamily(family), &filter, netlink.RT_FILTER_TABLE,
			func(r netlink.Route) bool {
				if route := names.route(r, family == 4); wanted(route) {
					out = append(out, route)
				}
				return len(out) < most
			})
		return out, err
	})
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return out, fmt.Errorf("listing routes: %w", errChanged)
	}
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	return out, nil
}

func (d devices) route(r netlink.Route, v4 bool) Route {
	out := Route{To: prefixOf(r.Dst, v4), Type: r.Type, Proto: int(r.Protocol), Metric: r.Priority, MTU: r.MTU,
		Table: r.Table, Source: addrOf(r.Src)}
	if out.Type == unix.RTN_UNICAST {
		out.Type = 0
	}
	if r.Scope != netlink.SCOPE_UNIVERSE {
		out.Scope = r.Scope.String()
	}
	for _, h := range r.MultiPath {
		out.Hops = append(out.Hops, Hop{gateway(h.Gw, h.Via), d.name(h.LinkIndex), hopFlags(h.Flags)})
	}
	if len(r.MultiPath) == 0 {
		out.Hops = []Hop{{gateway(r.Gw, r.Via), d.name(r.LinkIndex), hopFlags(r.Flags)}}
	}
	return out
}

func hopFlags(flags int) string {
	var out []string
	for _, f := range []struct {
		bit  int
		name string
	}{{unix.RTNH_F_DEAD, "dead"}, {unix.RTNH_F_LINKDOWN, "linkdown"}, {unix.RTNH_F_ONLINK, "onlink"}} {
		if flags&f.bit != 0 {
			out = append(out, f.name)
		}
	}
	return strings.Join(out, " ")
}

// gateway returns the next hop's address. The address may belong to the route's family or to the other one.
func gateway(ip net.IP, via netlink.Destination) netip.Addr {
	if v, ok := via.(*netlink.Via); ok && v != nil {
		ip = v.Addr
	}
	return addrOf(ip)
}

// prefixOf returns the destination of a route. A default route has no destination.
func prefixOf(n *net.IPNet, v4 bool) netip.Prefix {
	if n == nil {
		if v4 {
			return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		}
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(addrOf(n.IP), bits)
}

func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// addressFamily returns the kernel's number for family 4 or 6.
func addressFamily(family int) int {
	if family == 6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}
