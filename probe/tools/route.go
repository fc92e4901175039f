package tools

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// Route asks the kernel for its routes.
var Route = &probe.Tool{
	Name: "route", Usage: "[show] [default | PREFIX | ADDRESS] [dev NAME] [proto NAME] [table N] | get ADDRESS [from ADDRESS] [iif NAME]", Short: "the kernel's routes, and the one it takes",
	Doc: `'route get' asks the kernel what it would do with a packet: by which device, through
whom, from which address, and which route says so. 'route show' lists the routes, of
the main table unless told, IPv4 and then IPv6.

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

// getting is what 'route get' was told.
type getting struct {
	to, from netip.Addr
	in       string
}

// showing is what 'route show' was told.
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
	s := showing{proto: -1, table: tableMain}
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
		if named, ok := protocols[value]; ok {
			s.proto = named
		} else if err != nil || n > 255 {
			return fmt.Errorf("route knows no protocol %q; bird, felix, kernel, boot, static, ra, dhcp or a number",
				value)
		}
	case "table":
		s.table = int(n)
		if named, ok := map[string]int{"main": tableMain, "local": tableLocal, "default": tableDefault,
			"all": 0}[value]; ok {
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

// The kernel's names for its tables (rtnetlink(7)).
const (
	tableDefault = 253
	tableMain    = 254
	tableLocal   = 255
)

// protocols are who makes routes (linux/rtnetlink.h); 80 is Felix's own choice
// (felix/dataplane/linux, DefaultRouteProto).
var protocols = map[string]int{
	"redirect": 1, "kernel": 2, "boot": 3, "static": 4, "ra": 9, "zebra": 11, "bird": 12, "dhcp": 16,
	"keepalived": 18, "felix": 80, "bgp": 186, "isis": 187, "ospf": 188, "rip": 189,
}

func protocolName(n int) string {
	for name, is := range protocols {
		if is == n {
			return name
		}
	}
	return strconv.Itoa(n)
}

// kinds are what routes of other types than the usual one do (linux/rtnetlink.h).
var kinds = map[int]string{2: "local", 3: "broadcast", 4: "anycast", 5: "multicast", 6: "blackhole", 7: "unreachable",
	8: "prohibit", 9: "throw", 10: "nat"}

// way is a route as it is shown.
type way struct {
	to     netip.Prefix
	kind   int
	hops   []hop
	proto  int
	src    netip.Addr
	metric int
	mtu    int
	scope  string // "" when it is global
	table  int
}

// hop is one of the next hops of a route.
type hop struct {
	via     netip.Addr
	device  string
	flagged string
}

// String is the route in one line, as 'ip route' would put it.
func (w way) String() string {
	var b strings.Builder
	if k := kinds[w.kind]; k != "" {
		b.WriteString(k + " ")
	}
	if w.to.Bits() == 0 {
		b.WriteString("default")
	} else if w.to.IsSingleIP() {
		b.WriteString(w.to.Addr().String())
	} else {
		b.WriteString(w.to.String())
	}
	for i, h := range w.hops {
		if len(w.hops) > 1 {
			fmt.Fprintf(&b, " hop %d", i+1)
		}
		if h.via.IsValid() {
			fmt.Fprintf(&b, " via %s", h.via)
		}
		if h.device != "" {
			fmt.Fprintf(&b, " dev %s", h.device)
		}
		if h.flagged != "" {
			b.WriteString(" " + h.flagged)
		}
	}
	if w.proto != 0 { // none made what 'get' composes
		fmt.Fprintf(&b, " proto %s", protocolName(w.proto))
	}
	if w.scope != "" {
		fmt.Fprintf(&b, " scope %s", w.scope)
	}
	if w.src.IsValid() {
		fmt.Fprintf(&b, " src %s", w.src)
	}
	if w.metric != 0 {
		fmt.Fprintf(&b, " metric %d", w.metric)
	}
	if w.mtu != 0 {
		fmt.Fprintf(&b, " mtu %d", w.mtu)
	}
	if w.table != tableMain && w.table != 0 {
		fmt.Fprintf(&b, " table %d", w.table)
	}
	return b.String()
}

// shown tells whether a route is one of those asked for.
func (s showing) shown(w way) bool {
	switch {
	case s.table != 0 && w.table != s.table,
		s.proto >= 0 && w.proto != s.proto,
		s.byDefault && w.to.Bits() != 0,
		s.having.IsValid() && !w.to.Contains(s.having),
		s.within.IsValid() && (s.within.Bits() > w.to.Bits() || !s.within.Contains(w.to.Addr())),
		s.within.IsValid() && s.within.Bits() == 0 && w.to.Bits() != 0: // "0.0.0.0/0" and "::/0" are default routes
		return false
	}
	if s.device == "" {
		return true
	}
	for _, h := range w.hops {
		if h.device == s.device {
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
		found, err := routes(family, s.table, mostRoutes+1-n,
			func(w way) bool { return s.shown(w) && ctx.Err() == nil })
		many, flush := buffered(j)
		for _, w := range found[:min(len(found), mostRoutes-n)] {
			many.Say("%s", w)
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
