package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// Route asks the kernel for its routes.
var Route = &probe.Tool{
	Name: "route", Usage: "[show] [default | PREFIX | ADDRESS] [dev NAME] [proto NAME] [table N] | get ADDRESS [from ADDRESS] [iif NAME]", Short: "the kernel's routes, and the one it takes",
	Doc: `'route get' asks the kernel what it would do with a packet: by which device, through
whom, from which address, and which route says so. 'route show' lists the routes, of
the main table by default, IPv4 and then IPv6.

  default      the default routes
  PREFIX       what lies within it, and the route that is it
  ADDRESS      every route that has it in it
  dev NAME     by this device
  proto NAME   made by bird, felix, kernel, boot, static, ra, dhcp or a number
  table N      of another table: main, local, default, all or a number
  from, iif    as if the packet came from that address, by that device

  route get 10.244.7.9
  route get 10.244.7.9 from 10.244.1.4 iif cali0123456789a
  route show 10.244.0.0/16 proto bird
  route show dev vxlan.calico
  route default

'get' fails when there is no route, or one that forbids (blackhole, unreachable, prohibit).`,
	Parse: parseRoute,
}

// mostRoutes bounds what is printed: a full table of a route reflector's has 100,000.
const mostRoutes = 20_000

// getting are the arguments of 'route get'.
type getting struct {
	to, from netip.Addr
	in       string
}

// showing are the arguments of 'route show'.
type showing struct {
	byDefault bool         // default routes only, of both families
	within    netip.Prefix // invalid = all
	having    netip.Addr   // invalid = all
	device    string       // "" = all
	proto     int          // -1 = all
	table     int          // 0 = all
}

func parseRoute(args []string) (probe.ToolFunc, error) {
	if len(args) > 0 && args[0] == "get" {
		return parseGet(args[1:])
	}
	if len(args) > 0 && args[0] == "show" {
		args = args[1:]
	}
	s := showing{proto: -1, table: kernel.TableMain}
	for len(args) > 0 {
		word := args[0]
		if args = args[1:]; word == "dev" || word == "proto" || word == "table" {
			if len(args) == 0 {
				return nil, fmt.Errorf("route: %s of what? 'help route' shows examples", word)
			}
			if err := s.only(word, args[0]); err != nil {
				return nil, err
			}
			args = args[1:]
			continue
		}
		p, err := netip.ParsePrefix(word)
		a, bad := netip.ParseAddr(word)
		switch {
		case word != "default" && err != nil && bad != nil, s.byDefault, s.within.IsValid(), s.having.IsValid():
			return nil, fmt.Errorf("route takes get, show, default, a prefix, dev, proto or table, not %q; 'help route' shows examples", word)
		case word == "default":
			s.byDefault = true
		case err == nil:
			s.within = p.Masked()
		default:
			s.having = a.Unmap()
		}
	}
	return s.run, nil
}

// only narrows what is shown.
func (s *showing) only(word, value string) error {
	n, err := strconv.ParseUint(value, 10, 31)
	switch word {
	case "dev":
		s.device = value
	case "proto":
		s.proto = int(n)
		if named, ok := kernel.Protocols[value]; ok {
			s.proto = named
		} else if err != nil || n > 255 {
			return fmt.Errorf("route knows no protocol %q; bird, felix, kernel, boot, static, ra, dhcp or a number",
				value)
		}
	case "table":
		s.table = int(n)
		if named, ok := kernel.Tables[value]; ok || value == "all" {
			s.table = named
		} else if err != nil || n == 0 {
			return fmt.Errorf("route knows no table %q; main, local, default, all or a number", value)
		}
	}
	return nil
}

func parseGet(args []string) (probe.ToolFunc, error) {
	const want = "route get takes an address: route get 10.244.7.9 from 10.244.1.4"
	if len(args) == 0 {
		return nil, errors.New(want)
	}
	var g getting
	var err error
	if g.to, err = netip.ParseAddr(args[0]); err != nil {
		return nil, fmt.Errorf("route get takes an address, not %q", args[0])
	}
	g.to = g.to.Unmap()
	for args = args[1:]; len(args) > 0; args = args[2:] {
		if len(args) == 1 {
			return nil, errors.New(want)
		}
		switch args[0] {
		case "from":
			if g.from, err = netip.ParseAddr(args[1]); err != nil || g.from.Is4() != g.to.Is4() {
				return nil, fmt.Errorf("from takes an address of the same family, not %q", args[1])
			}
		case "iif":
			g.in = args[1]
		default:
			return nil, errors.New(want)
		}
	}
	if g.in != "" && !g.from.IsValid() {
		return nil, errors.New("iif goes with from: 'route get ADDRESS from ADDRESS iif NAME'")
	}
	return g.run, nil
}

// shown tells whether a route is one of those asked for.
func (s showing) shown(r kernel.Route) bool {
	switch {
	case s.table != 0 && r.Table != s.table,
		s.proto >= 0 && r.Proto != s.proto,
		s.byDefault && r.To.Bits() != 0,
		s.having.IsValid() && !r.To.Contains(s.having),
		s.within.IsValid() && (s.within.Bits() > r.To.Bits() || !s.within.Contains(r.To.Addr())),
		s.within.IsValid() && s.within.Bits() == 0 && r.To.Bits() != 0: // "0.0.0.0/0" and "::/0" are default routes
		return false
	}
	if s.device == "" {
		return true
	}
	for _, h := range r.Hops {
		if h.Device == s.device {
			return true
		}
	}
	return false
}

// families are those whose routes may be shown.
func (s showing) families() []int {
	for _, a := range []netip.Addr{s.having, s.within.Addr()} {
		switch {
		case a.Is4():
			return []int{4}
		case a.Is6():
			return []int{6}
		}
	}
	return []int{4, 6}
}

func (s showing) run(ctx context.Context, j *probe.Job) probe.Result {
	n := 0
	for _, family := range s.families() {
		// All of them before the first is printed: while a slow line is written to, the
		// kernel's table changes, and its list would have to be asked for again.
		found, err := kernel.Routes(family, s.table, mostRoutes+1-n,
			func(r kernel.Route) bool { return s.shown(r) && ctx.Err() == nil })
		many, flush := buffered(j)
		for _, r := range found[:min(len(found), mostRoutes-n)] {
			many.Say("%s", r)
		}
		_ = flush() // a session that is gone ends the tool
		n += len(found)
		switch {
		case ctx.Err() != nil:
			return probe.Found(probe.Unknown, "stopped after %s", several(n, "route"))
		case err != nil:
			return unread(err)
		case n > mostRoutes:
			j.Say("(more than %d, the rest is not shown: name a prefix, dev or proto)", mostRoutes)
			return probe.Found(probe.OK, "more than %d routes", mostRoutes)
		}
	}
	if n == 0 {
		return probe.Found(probe.Fail, "there is no such route").With(probe.FactReason, "missing")
	}
	return probe.Found(probe.OK, "%s", several(n, "route"))
}

// run asks the kernel for the way of one packet.
func (g getting) run(_ context.Context, j *probe.Job) probe.Result {
	way, matched, err := kernel.RouteOf(kernel.Packet{To: g.to, From: g.from, In: g.in})
	switch {
	case errors.Is(err, kernel.ErrNoInterface):
		return probe.Found(probe.Fail, "there is no interface %s", g.in).With(probe.FactReason, "missing")
	case err != nil:
		return g.refused(err)
	}
	j.Say("%s", way)
	if matched == nil {
		return probe.Found(probe.OK, "%s goes %s", g.to, whereTo(way))
	}
	j.Say("by the route: %s", matched)
	return probe.Found(probe.OK, "%s goes %s, by the route %s made by %s", g.to, whereTo(way), matched.To,
		kernel.ProtocolName(matched.Proto))
}

// refusals say what the kernel means by an error instead of a route to an address.
var refusals = map[syscall.Errno]string{
	syscall.ENETUNREACH:  "the kernel has no route to %s",
	syscall.EHOSTUNREACH: "an unreachable route rejects packets to %s, or forwarding from that device is off",
	syscall.EACCES:       "a prohibit route rejects packets to %s",
	syscall.EXDEV: "the kernel drops such a packet to %s: its source is not expected on that device (rp_filter), " +
		"or is its own",
}

// refused judges what the kernel answers instead of a route.
func (g getting) refused(err error) probe.Result {
	if g.from.IsValid() && g.in == "" && !isOwn(g.from) {
		return probe.Found(probe.Fail,
			"%s is no address of this node; for what the node forwards, name the device it comes by: iif NAME", g.from)
	}
	var invalid *kernel.Invalid
	if errors.As(err, &invalid) {
		return probe.Found(probe.Fail, "%s: %s", g.to, invalid.Says()).
			With(probe.FactReason, cmp.Or(string(invalid.Means), "invalid"))
	}
	for errno, saw := range refusals {
		if errors.Is(err, errno) {
			return probe.Found(probe.Fail, saw, g.to).With(probe.FactReason, probe.Reason(err))
		}
	}
	return unread(err)
}

// isOwn tells whether an address is one of this network namespace.
func isOwn(a netip.Addr) bool {
	links, err := kernel.Links()
	if err != nil {
		return true // then the kernel's word stands
	}
	return slices.ContainsFunc(links, func(l kernel.Link) bool { return l.Has(a.Unmap()) })
}

// whereTo is the first hop of a route in words.
func whereTo(r kernel.Route) string {
	if r.Type == kernel.Local {
		return "nowhere: it is an address of this node"
	} else if name := r.TypeName(); name != "" {
		return "nowhere: " + name
	}
	var b strings.Builder
	for _, h := range r.Hops[:min(len(r.Hops), 1)] {
		fmt.Fprintf(&b, "by %s", h.Device)
		if h.Gateway.IsValid() {
			fmt.Fprintf(&b, " through %s", h.Gateway)
		}
	}
	if r.Source.IsValid() {
		fmt.Fprintf(&b, " from %s", r.Source)
	}
	return b.String()
}
