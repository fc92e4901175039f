package checks

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// routesTo lists what this network namespace's main table has for exactly these
// prefixes. A table may hold a million others, which are not kept.
func routesTo(f int, wanted map[netip.Prefix]bool) (map[netip.Prefix]entry, error) {
	return Undisturbed(func() (map[netip.Prefix]entry, error) {
		out := map[netip.Prefix]entry{}
		err := netlink.RouteListFilteredIter(addressFamily(f), &netlink.Route{}, 0, func(r netlink.Route) bool {
			if r.Dst == nil {
				return true
			}
			a, _ := netip.AddrFromSlice(r.Dst.IP)
			bits, _ := r.Dst.Mask.Size()
			to := netip.PrefixFrom(a.Unmap(), bits)
			old, have := out[to]
			if !wanted[to] || have && old.metric < r.Priority {
				return true
			}
			now := entry{blackhole: r.Type == unix.RTN_BLACKHOLE, metric: r.Priority}
			if have && old.metric == r.Priority { // old kernels have one route for each next hop in IPv6
				now.gateways = old.gateways
			}
			hops := r.MultiPath
			if len(hops) == 0 {
				hops = []*netlink.NexthopInfo{{Gw: r.Gw}}
			}
			for _, hop := range hops {
				if gw, ok := netip.AddrFromSlice(hop.Gw); ok {
					now.gateways = append(now.gateways, gw.Unmap())
				}
			}
			out[to] = now
			return true
		})
		if err != nil {
			return nil, fmt.Errorf("listing routes: %w", err)
		}
		return out, nil
	})
}
