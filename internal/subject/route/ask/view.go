package ask

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// entry is what the kernel's table has for exactly one prefix.
type entry struct {
	blackhole bool
	gateways  []netip.Addr
	metric    int
}

// routeView is what is known of one address family to judge routes by: whose addresses there are, and the
// kernel's table.
type routeView struct {
	nodes  map[netip.Addr]string // whose address it is, on the network or inside a tunnel
	pools  []probe.Target
	fabric bool // a BGP peer is no node: a switch, which may be told of blocks
	table  map[netip.Prefix]entry
	unread error // why there is no table
	links  []kernel.Link
}

// routesTo lists what this network namespace's main table has for exactly these
// prefixes.
func routesTo(family int, wanted map[netip.Prefix]bool) (map[netip.Prefix]entry, error) {
	routes, err := kernel.Routes(family, kernel.TableMain, math.MaxInt,
		func(r kernel.Route) bool { return r.To.Bits() > 0 && wanted[r.To] })
	if err != nil {
		return nil, err
	}
	out := map[netip.Prefix]entry{}
	for _, r := range routes {
		old, have := out[r.To]
		if have && old.metric < r.Metric {
			continue
		}
		now := entry{blackhole: r.Type == kernel.Blackhole, metric: r.Metric}
		if have && old.metric == r.Metric { // old kernels have one route for each next hop in IPv6
			now.gateways = old.gateways
		}
		for _, hop := range r.Hops {
			if hop.Gateway.IsValid() {
				now.gateways = append(now.gateways, hop.Gateway)
			}
		}
		out[r.To] = now
	}
	return out, nil
}

// What leads says beside where a route leads.
const (
	noRoute   = "nowhere"        // only the default route covers it, or none
	swallowed = "into blackhole" // this node has a blackhole route for exactly it
	// the gateway is no node: between networks without encapsulation that is how it should be
	byRouter = "through routers"
	// so does a route for exactly the block, and somebody made it by hand
	byHand = "by hand"
)

// leads says where packets to a block go when that is not its node: "" when it is.
// Tunnels that Felix fills have gateways of their own; where it is not known whose
// they are, it is the device that tells.
func (a routeView) leads(l ipamBlock) (string, error) {
	to := l.prefix.Addr()
	if !l.prefix.IsSingleIP() {
		to = to.Next()
	}
	way, err := node.Lookup(to)
	switch {
	// without the table, a wider one perhaps
	case errors.Is(err, syscall.EINVAL) && (a.table[l.prefix].blackhole || a.unread != nil):
		return swallowed, nil
	case err != nil && node.Unroutable(err).Status == probe.Fail:
		return noRoute, nil
	case err != nil:
		return "", err
	case !way.Match.IsValid():
		return "", errors.New("this kernel does not tell which route matches")
	case way.Match.Bits() > l.prefix.Bits(): // one address, borrowed by a pod elsewhere
		return "", nil
	}
	whose := a.nodes[way.Gateway]
	wider := way.Match.Bits() < l.prefix.Bits()
	switch hops := a.among(a.table[l.prefix].gateways); {
	case len(hops) > 1 && !wider:
		return "to " + strings.Join(hops, " and ") + " at once", nil
	case way.Gateway.IsValid() && (way.Gateway == l.addr || whose == l.node):
		return "", nil
	case felixTunnel(way.Device) && whose == "":
		return "", nil
	case wider:
		// A wider route, such as the default one, is not the block's; but where it also
		// leads to the node, a router may know the block, unless it never gets to see one.
		if a.encapsulated(l, probe.AttrVXLAN) || a.encapsulated(l, probe.AttrIPIP) && !a.fabric {
			return noRoute, nil
		}
		if to, err := node.Lookup(l.addr); err == nil && to.Gateway.IsValid() && to.Gateway == way.Gateway {
			return byRouter, nil
		}
		return noRoute, nil
	case !way.Gateway.IsValid():
		return "to " + way.Device + " without a gateway", nil
	case whose == "" && (way.Proto == "static" || way.Proto == "boot"):
		return byHand, nil
	case whose == "":
		return byRouter, nil
	}
	return fmt.Sprintf("to %s %s by %s", whose, way.Gateway, way.Device), nil
}

// overlap is an interface of this node whose own range is a block of another node, or a part of it, and
// how that is said: the kernel gives it what is for the pods there. A wider range gives way to the block's route.
func (a routeView) overlap(l ipamBlock) (device, text string) {
	own := func(to netip.Addr) bool {
		return slices.ContainsFunc(a.links, func(d kernel.Link) bool { return d.Has(to) })
	}
	for _, d := range a.links {
		for _, has := range d.Addrs {
			if !d.Up || has.IsSingleIP() || has.Bits() < l.prefix.Bits() || !l.prefix.Contains(has.Addr()) {
				continue
			}
			to := has.Masked().Addr().Next()
			for own(to) {
				to = to.Next()
			}
			// The address alone does not make a route of it (noprefixroute).
			if way, err := node.Lookup(to); err == nil && has.Contains(to) && way.Device == d.Name && !way.Gateway.IsValid() {
				return d.Name, fmt.Sprintf("%s with %s, %s", d.Name, has, l)
			}
		}
	}
	return "", ""
}

// encapsulated reports whether a pool that holds the block has the mode on, be it
// between subnets only.
func (a routeView) encapsulated(l ipamBlock, mode string) bool {
	return a.inPool(l, func(t probe.Target) bool { return cmp.Or(t.Attrs[mode], "Never") != "Never" })
}

// inPool reports whether a pool that holds the block is such a one.
func (a routeView) inPool(l ipamBlock, such func(probe.Target) bool) bool {
	return slices.ContainsFunc(a.pools, func(t probe.Target) bool {
		pool, err := netip.ParsePrefix(t.Name)
		return err == nil && pool.Contains(l.prefix.Addr()) && such(t)
	})
}

// byFelix reports whether Felix, and not BIRD, makes the routes to a block: of VXLAN pools in any case, of
// others where it is set to.
func (a routeView) byFelix(l ipamBlock) bool {
	return a.encapsulated(l, probe.AttrVXLAN) || a.inPool(l, func(t probe.Target) bool {
		return t.Attrs[probe.AttrMakers] == probe.MakersFelix || t.Attrs[probe.AttrMakers] == probe.MakersBoth
	})
}

// among names the different nodes that some gateways belong to.
func (a routeView) among(gateways []netip.Addr) []string {
	var out []string
	seen := map[string]bool{}
	for _, g := range gateways {
		if node := a.nodes[g]; node != "" && !seen[node] {
			seen[node] = true
			out = append(out, node+" "+g.String())
		}
	}
	return out
}

// felixTunnel reports whether routes by a device may have gateways that are no node's
// own address; those by tunl0 have not.
func felixTunnel(device string) bool {
	return slices.ContainsFunc(node.Encapsulations,
		func(e node.Encapsulation) bool { return e.Device == device && e.Name != "IPIP" })
}

// ownBlocks looks for the routes that keep packets to pods that are gone on this
// node.
func (a routeView) ownBlocks(own []ipamBlock) probe.Result {
	if a.unread != nil {
		return node.Unseen(a.unread)
	}
	var open []string
	for _, l := range own {
		if !a.table[l.prefix].blackhole {
			open = append(open, l.prefix.String())
		}
	}
	r := probe.Found(probe.OK, "all %d own blocks have their blackhole route", len(own))
	if len(open) > 0 {
		r = probe.Found(probe.Info, "%d of %d own blocks have no blackhole route: %s", len(open), len(own), node.Some(open))
	}
	return r.With(factBlocks, len(own))
}
