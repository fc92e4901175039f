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

// entry is the kernel's route for exactly one prefix.
type entry struct {
	blackhole bool
	gateways  []netip.Addr
	metric    int
}

// routeView holds the data for evaluating routes in one address family: the owners of addresses,
// and the kernel's table.
type routeView struct {
	nodes  map[netip.Addr]string // the owner of an address, on the network or inside a tunnel
	pools  []probe.Target
	fabric bool // true if a BGP peer is not a node but, for example, a switch that may have routes to the blocks
	table  map[netip.Prefix]entry
	unread error // the reason why the table is missing
	links  []kernel.Link
}

// routesTo lists the routes for exactly these prefixes in the main table of this network namespace.
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
		if have && old.metric == r.Metric { // old kernels have one IPv6 route for each next hop
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

// Results of nextHop that are not a destination.
const (
	noRoute   = "nowhere"        // only the default route matches, or no route
	swallowed = "into blackhole" // this node has a blackhole route for exactly the block
	// the gateway is not a node, which is normal between networks without encapsulation
	byRouter = "through routers"
	// the same, but through a route for exactly the block that was added by hand
	byHand = "by hand"
)

// nextHop returns the destination of packets to a block if that is not the block's node. Otherwise, it returns "".
// Tunnels that Felix configures have special gateways. If a gateway's owner is unknown, the device decides.
func (a routeView) nextHop(l ipamBlock) (string, error) {
	to := l.prefix.Addr()
	if !l.prefix.IsSingleIP() {
		to = to.Next()
	}
	way, err := node.Lookup(to)
	switch {
	// without the table, a wider route might match
	case errors.Is(err, syscall.EINVAL) && (a.table[l.prefix].blackhole || a.unread != nil):
		return swallowed, nil
	case err != nil && node.Unroutable(err).Status == probe.Fail:
		return noRoute, nil
	case err != nil:
		return "", err
	case !way.Match.IsValid():
		return "", errors.New("this kernel does not report which route matches")
	case way.Match.Bits() > l.prefix.Bits(): // a single address, borrowed by a pod on another node
		return "", nil
	}
	whose := a.nodes[way.Gateway]
	wider := way.Match.Bits() < l.prefix.Bits()
	switch hops := a.nodesOf(a.table[l.prefix].gateways); {
	case len(hops) > 1 && !wider:
		return "to " + strings.Join(hops, " and ") + " at once", nil
	case way.Gateway.IsValid() && (way.Gateway == l.addr || whose == l.node):
		return "", nil
	case felixTunnel(way.Device) && whose == "":
		return "", nil
	case wider:
		// A wider route, such as the default route, is not meant for the block. But if it also leads to the node, a
		// router may have a route to the block, unless encapsulation hides the packets from the router.
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

// overlap returns, as text, an interface of this node whose range is inside another node's block. The kernel sends
// packets for the pods in that range to the interface. If the interface's range is wider than the block, the
// block's route takes precedence.
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
			// The address alone does not create a route (noprefixroute).
			if way, err := node.Lookup(to); err == nil && has.Contains(to) && way.Device == d.Name && !way.Gateway.IsValid() {
				return d.Name, fmt.Sprintf("%s with %s, %s", d.Name, has, l)
			}
		}
	}
	return "", ""
}

// encapsulated reports whether a pool that contains the block has the mode enabled, even if only between subnets.
func (a routeView) encapsulated(l ipamBlock, mode string) bool {
	return a.inPool(l, func(t probe.Target) bool { return cmp.Or(t.Attrs[mode], "Never") != "Never" })
}

// inPool reports whether a pool that contains the block meets a condition.
func (a routeView) inPool(l ipamBlock, such func(probe.Target) bool) bool {
	return slices.ContainsFunc(a.pools, func(t probe.Target) bool {
		pool, err := netip.ParsePrefix(t.Name)
		return err == nil && pool.Contains(l.prefix.Addr()) && such(t)
	})
}

// byFelix reports whether Felix, and not BIRD, creates the routes to a block. For VXLAN pools, it always does. For
// other pools, it does so only if configured.
func (a routeView) byFelix(l ipamBlock) bool {
	return a.encapsulated(l, probe.AttrVXLAN) || a.inPool(l, func(t probe.Target) bool {
		return t.Attrs[probe.AttrMakers] == probe.MakersFelix || t.Attrs[probe.AttrMakers] == probe.MakersBoth
	})
}

// nodesOf lists the nodes that own the given gateways, without duplicates.
func (a routeView) nodesOf(gateways []netip.Addr) []string {
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

// felixTunnel reports whether routes on a device may have gateways other than a node's own address. Routes on tunl0
// must not have such gateways.
func felixTunnel(device string) bool {
	return slices.ContainsFunc(node.Encapsulations,
		func(e node.Encapsulation) bool { return e.Device == device && e.Name != "IPIP" })
}

// ownBlocks looks for the routes that keep packets to deleted pods on this node.
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
	r := probe.Found(probe.OK, "all %d blocks of this node have a blackhole route", len(own))
	if len(open) > 0 {
		r = probe.Found(probe.Info, "%d of %d blocks of this node have no blackhole route: %s", len(open), len(own), node.Some(open))
	}
	return r.With(factBlocks, len(own))
}
