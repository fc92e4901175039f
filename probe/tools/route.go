package tools

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// Route queries the kernel's routes.
var Route = &probe.Tool{
	Name: "route", Usage: "[show] [default | PREFIX | ADDRESS] [dev NAME] [proto NAME] [table N] | get ADDRESS [from ADDRESS] [iif NAME]", Short: "the kernel's routes, or the route of one packet",
	Doc: `'route get' queries the kernel for the path of a packet: device, next hop, source address,
and the route that it matches. 'route show' lists routes, by default those of the main
table, IPv4 first and then IPv6.

  default      the default routes
  PREFIX       this prefix, and every route inside it
  ADDRESS      every route that contains this address
  dev NAME     through this device
  proto NAME   created by bird, felix, kernel, boot, static, ra, dhcp or a number
  table N      of another table: main, local, default, all or a number
  from, iif    as if the packet came from that address, through that device

  route get 10.244.7.9
  route get 10.244.7.9 from 10.244.1.4 iif cali0123456789a
  route show 10.244.0.0/16 proto bird
  route show dev vxlan.calico
  route default

'get' fails when no route matches, or the route rejects the packet (blackhole, unreachable,
prohibit).`,
	Check: check(ParseRoute),
}

// RouteArgs holds the arguments of route.
type RouteArgs struct {
	Get  *RouteGet // nil = show routes
	Show RouteShow
}

// RouteGet holds the arguments of 'route get'.
type RouteGet struct {
	To, From netip.Addr
	In       string
}

// RouteShow holds the arguments of 'route show'.
type RouteShow struct {
	Default bool         // only default routes, of both families
	Within  netip.Prefix // invalid = all
	Having  netip.Addr   // invalid = all
	Device  string       // "" = all
	Proto   string       // one of the protocols or a number, "" = all
	Table   string       // one of the tables, "all" or a number
}

// The kernel's names for route protocols and tables.
var (
	protocols = strings.Fields(`
		unspec redirect kernel boot static gated ra mrt zebra bird dnrouted xorp ntk dhcp mrouted keepalived
		babel felix bgp isis ospf rip eigrp`)
	tables = []string{"main", "local", "default"}
)

// ParseRoute parses the arguments of route.
func ParseRoute(args []string) (*RouteArgs, error) {
	if len(args) > 0 && args[0] == "get" {
		g, err := parseGet(args[1:])
		return &RouteArgs{Get: &g}, err
	}
	s, err := parseShow(args)
	return &RouteArgs{Show: s}, err
}

func parseShow(args []string) (RouteShow, error) {
	if len(args) > 0 && args[0] == "show" {
		args = args[1:]
	}
	s := RouteShow{Table: "main"}
	for len(args) > 0 {
		word := args[0]
		if args = args[1:]; word == "dev" || word == "proto" || word == "table" {
			if len(args) == 0 {
				return s, fmt.Errorf("route: %s needs a value: 'help route' shows examples", word)
			}
			if err := s.only(word, args[0]); err != nil {
				return s, err
			}
			args = args[1:]
			continue
		}
		p, err := netip.ParsePrefix(word)
		a, bad := netip.ParseAddr(word)
		switch {
		case word != "default" && err != nil && bad != nil, s.Default, s.Within.IsValid(), s.Having.IsValid():
			return s, fmt.Errorf("route takes get, show, default, a prefix, dev, proto or table, not %q; 'help route' shows examples", word)
		case word == "default":
			s.Default = true
		case err == nil:
			s.Within = p.Masked()
		default:
			s.Having = a.Unmap()
		}
	}
	return s, nil
}

// only narrows the list.
func (s *RouteShow) only(word, value string) error {
	n, err := strconv.ParseUint(value, 10, 31)
	switch word {
	case "dev":
		s.Device = value
	case "proto":
		if s.Proto = value; !slices.Contains(protocols, value) && (err != nil || n > 255) {
			return fmt.Errorf("route has no protocol %q: use bird, felix, kernel, boot, static, ra, dhcp or a number",
				value)
		}
	case "table":
		if s.Table = value; !slices.Contains(tables, value) && value != "all" && (err != nil || n == 0) {
			return fmt.Errorf("route has no table %q: use main, local, default, all or a number", value)
		}
	}
	return nil
}

func parseGet(args []string) (RouteGet, error) {
	const want = "route get takes an address: route get 10.244.7.9 from 10.244.1.4"
	var g RouteGet
	if len(args) == 0 {
		return g, errors.New(want)
	}
	var err error
	if g.To, err = netip.ParseAddr(args[0]); err != nil {
		return g, fmt.Errorf("route get takes an address, not %q", args[0])
	}
	g.To = g.To.Unmap()
	for args = args[1:]; len(args) > 0; args = args[2:] {
		if len(args) == 1 {
			return g, errors.New(want)
		}
		switch args[0] {
		case "from":
			if g.From, err = netip.ParseAddr(args[1]); err != nil || g.From.Is4() != g.To.Is4() {
				return g, fmt.Errorf("from takes an address of the same family, not %q", args[1])
			}
		case "iif":
			g.In = args[1]
		default:
			return g, errors.New(want)
		}
	}
	if g.In != "" && !g.From.IsValid() {
		return g, errors.New("iif needs from: 'route get ADDRESS from ADDRESS iif NAME'")
	}
	return g, nil
}
