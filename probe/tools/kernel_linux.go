package tools

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
)

// run asks the kernel for the way of one packet.
func (g getting) run(_ context.Context, j *probe.Job) probe.Result {
	options := netlink.RouteGetOptions{Iif: g.in}
	if g.from.IsValid() {
		options.SrcAddr = g.from.AsSlice()
	}
	routes, err := netlink.RouteGetWithOptions(g.to.AsSlice(), &options)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return probe.Found(probe.Fail, "there is no interface %s", g.in).With(probe.FactReason, "missing")
	}
	if err != nil {
		return g.refused(err)
	}
	if len(routes) == 0 {
		return probe.Found(probe.Unknown, "the kernel answers nothing about %s", g.to)
	}
	names := devices{}
	w := names.way(routes[0], g.to.Is4())
	if g.from.IsValid() { // the kernel does not repeat it
		w.src = g.from
	}
	j.Say("%s", w)
	// Kernels before 4.13 do not tell which route matched; then that stays open.
	options.FIBMatch = true
	matched, err := netlink.RouteGetWithOptions(g.to.AsSlice(), &options)
	if err != nil || len(matched) == 0 {
		return probe.Found(probe.OK, "%s goes %s", g.to, w.whereTo())
	}
	m := names.way(matched[0], g.to.Is4())
	j.Say("by the route: %s", m)
	return probe.Found(probe.OK, "%s goes %s, by the route %s made by %s", g.to, w.whereTo(), m.to, protocolName(m.proto))
}

// refused judges what the kernel answers instead of a route.
func (g getting) refused(err error) probe.Result {
	if g.from.IsValid() && g.in == "" && !own(g.from) {
		return probe.Found(probe.Fail, "%s is no address of this node; for what the node forwards, name the device it comes by: iif NAME", g.from)
	}
	for errno, saw := range map[syscall.Errno]string{
		unix.ENETUNREACH: "the kernel has no route to %s", unix.EHOSTUNREACH: "an unreachable route rejects packets to %s, or forwarding from that device is off",
		unix.EACCES: "a prohibit route rejects packets to %s", unix.EINVAL: "a blackhole route discards packets to %s",
		unix.EXDEV: "the kernel drops such a packet to %s: its source is not expected on that device (rp_filter), or is its own",
	} {
		if errors.Is(err, errno) {
			return probe.Found(probe.Fail, saw, g.to).With(probe.FactReason, probe.Reason(err))
		}
	}
	return unread(fmt.Errorf("asking for the route to %s: %w", g.to, err))
}

// own tells whether an address is one of this network namespace.
func own(a netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true // then the kernel's word stands
	}
	return slices.ContainsFunc(addrs, func(n net.Addr) bool {
		ip, ok := n.(*net.IPNet)
		return ok && addrOf(ip.IP) == a.Unmap()
	})
}

// whereTo is the first hop of a route in words.
func (w way) whereTo() string {
	if k := kinds[w.kind]; k == "local" {
		return "nowhere: it is an address of this node"
	} else if k != "" {
		return "nowhere: " + k
	}
	var b strings.Builder
	for _, h := range w.hops[:min(len(w.hops), 1)] {
		fmt.Fprintf(&b, "by %s", h.device)
		if h.via.IsValid() {
			fmt.Fprintf(&b, " through %s", h.via)
		}
	}
	if w.src.IsValid() {
		fmt.Fprintf(&b, " from %s", w.src)
	}
	return b.String()
}

// devices are the names of interfaces by their index, as far as they were asked for.
type devices map[int]string

func (d devices) name(index int) string {
	if index == 0 {
		return ""
	}
	name, ok := d[index]
	if !ok {
		name = fmt.Sprintf("if%d", index) // it has just gone
		if l, err := netlink.LinkByIndex(index); err == nil {
			name = l.Attrs().Name
		}
		d[index] = name
	}
	return name
}

func (d devices) way(r netlink.Route, v4 bool) way {
	w := way{to: prefixOf(r.Dst, v4), kind: r.Type, proto: int(r.Protocol), metric: r.Priority, mtu: r.MTU, table: r.Table, src: addrOf(r.Src)}
	if w.kind == unix.RTN_UNICAST {
		w.kind = 0
	}
	if r.Scope != netlink.SCOPE_UNIVERSE {
		w.scope = r.Scope.String()
	}
	for _, h := range r.MultiPath {
		w.hops = append(w.hops, hop{gateway(h.Gw, h.Via), d.name(h.LinkIndex), flagged(h.Flags)})
	}
	if len(r.MultiPath) == 0 {
		w.hops = []hop{{gateway(r.Gw, r.Via), d.name(r.LinkIndex), flagged(r.Flags)}}
	}
	return w
}

// flagged are the flags of a hop that matter when a fault is looked for.
func flagged(flags int) string {
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

// gateway is the next hop's address: of the route's family, or by the other.
func gateway(ip net.IP, via netlink.Destination) netip.Addr {
	if v, ok := via.(*netlink.Via); ok && v != nil {
		ip = v.Addr
	}
	return addrOf(ip)
}

func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// prefixOf is where a route goes; a default route has no destination.
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

// routes lists those of a family and a table (0 = all) that are wanted, up to a number. The
// error says when the kernel's table changed at each try: some may be missing.
func routes(family, table, most int, wanted func(way) bool) ([]way, error) {
	of := unix.AF_INET
	if family == 6 {
		of = unix.AF_INET6
	}
	names := devices{}
	var links []netlink.Link
	if links, _ = netlink.LinkList(); len(links) > 0 { // one question instead of one for each
		for _, l := range links {
			names[l.Attrs().Index] = l.Attrs().Name
		}
	}
	filter := netlink.Route{Table: table}
	out, err := checks.Undisturbed(func() (out []way, err error) {
		err = netlink.RouteListFilteredIter(of, &filter, netlink.RT_FILTER_TABLE, func(r netlink.Route) bool {
			if r.Flags&unix.RTM_F_CLONED == 0 { // else it is what the kernel has learnt, no route of anybody's
				if w := names.way(r, family == 4); wanted(w) {
					out = append(out, w)
				}
			}
			return len(out) < most
		})
		return out, err
	})
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return out, errors.New("the routes changed while they were listed, so that some may be missing: ask again")
	}
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	return out, nil
}

// links lists the interfaces.
func links() ([]link, error) {
	list, err := checks.Undisturbed(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("listing interfaces: %w", err)
	}
	addrs, err := checks.Undisturbed(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	names, on := devices{}, map[int][]netip.Prefix{}
	for _, l := range list {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	for _, a := range addrs {
		on[a.LinkIndex] = append(on[a.LinkIndex], prefixOf(a.IPNet, true))
	}
	var out []link
	for _, l := range list {
		a := l.Attrs()
		one := link{name: a.Name, kind: l.Type(), mac: a.HardwareAddr.String(), mtu: a.MTU, addrs: on[a.Index], state: a.OperState.String()}
		switch {
		case a.RawFlags&unix.IFF_UP == 0:
			one.state = "down"
		case a.RawFlags&unix.IFF_LOWER_UP == 0:
			one.state = "no-carrier"
		case a.OperState == netlink.OperUnknown: // the loopback, tunnels: they do not tell
			one.state = "up"
		}
		if a.MasterIndex != 0 {
			one.peer = names.name(a.MasterIndex)
		}
		if s := a.Statistics; s != nil {
			one.in, one.out, one.errIn, one.errOut, one.dropIn, one.dropOut = s.RxBytes, s.TxBytes, s.RxErrors, s.TxErrors, s.RxDropped, s.TxDropped
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b link) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// neighbours lists those of both families.
func neighbours() ([]neighbour, error) {
	names := devices{}
	var out []neighbour
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		list, err := checks.Undisturbed(func() ([]netlink.Neigh, error) { return netlink.NeighList(0, family) })
		if err != nil {
			return nil, fmt.Errorf("listing neighbours: %w", err)
		}
		for _, n := range list {
			if a := addrOf(n.IP); a.IsValid() {
				out = append(out, neighbour{a, names.name(n.LinkIndex), n.HardwareAddr.String(), neighStates[n.State], n.Flags&netlink.NTF_ROUTER != 0})
			}
		}
	}
	slices.SortFunc(out, func(a, b neighbour) int { return a.addr.Compare(b.addr) })
	return out, nil
}
