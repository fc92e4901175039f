package diagnose

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/node"
)

// noWay is the reason of what cannot leave because no route covers it.
const noWay = "net-unreachable"

// defaultRouteMissing is a node without a route for what is not its neighbourhood.
var defaultRouteMissing = &Rule{
	ID: "default-route-missing", Layer: LayerKernel, Title: "the node has no default route, and needs one",
	Doc: `A program of the host chooses the route before a service's address is translated, and the service network has no route of its own: without a default route the kernel refuses ("Network is unreachable") what would have been translated a moment later. So no service works from the node itself, for the kubelet, calico-node or any pod in the host's network, although kube-proxy's rules are all there; pods go on, because they have a default route of their own. What is outside of the node's networks, as registries and the name servers that CoreDNS asks, is out of reach for pods on this node too.
It is lost when a DHCP lease is not renewed, when an interface that had it was taken down and put up again by hand, or by an edited netplan, NetworkManager or networkd configuration.
Told from a broken kube-proxy by the kernel's own refusal; a node that reaches all it needs without a default route is fine.`,
	Fix: probe.Fix{
		Says:     "Restore the route in the network configuration (netplan, NetworkManager, networkd). 'ip route show default' on a node of the same network shows the gateway.",
		Manifest: defaultRoutes,
		Radius:   "all that leaves this node's own networks, at once",
	},
	RuledOut: []string{service.KubeProxyHealth.ID, link.NodeUplink.ID, link.NodePing.ID},
	Explains: []string{"service-path-broken", "dns-no-upstream", "dns-down", "api-cut-off", "start-outlasts-budget",
		"felix-waits", "typha-unreachable", "install-cni-fails"},
	Match: func(f Findings) []Case {
		var out []Case
		for _, r := range f.With(route.RouteCanReach.ID, route.FactDefault, false) {
			var refused []Finding
			for _, id := range []string{datastore.DatastoreLatency.ID, service.ServiceClusterIP.ID, dns.DNSCluster.ID,
				dns.DNSExternal.ID, datastore.TyphaReach.ID} {
				refused = append(refused, keep(f.Bad(id), func(b Finding) bool {
					return b.From == "" && reasonOf(b) == noWay && addressFamily(b) == familyOf(r)
				})...)
			}
			if len(refused) == 0 {
				continue
			}
			c := Case{
				About: familyName(familyOf(r)), Family: familyOf(r),
				Covers: slices.Concat(serviceless, calicoDown, unpulled(f, facts.RefusedByWay)),
				For:    append(Suggests(refused), Hints([]Finding{r})...),
				Says:   fmt.Sprintf("{node} has no default route, so %s is out of reach: %s", refused[0].Target, refused[0].Saw),
			}
			for _, o := range f.Elsewhere(route.RouteCanReach.ID) {
				if gateway := o.Facts.Str(node.FactGateway); gateway != "" && o.Facts[route.FactDefault] == true &&
					familyOf(o) == familyOf(r) && c.Fix == nil {
					c.Fix, c.Args = &routeByOther, map[string]Arg{"gateway": addressArg(gateway), "other": nodeArg(o.Node)}
				}
				if o.Facts[route.FactDefault] == false && familyOf(o) == familyOf(r) { // others do without
					c.Against = append(c.Against, Suggests([]Finding{o})...)
				}
			}
			out = append(out, c)
		}
		return out
	},
}

// routeByOther is the fix where another node's gateway is known.
var routeByOther = probe.Fix{
	Says:     "Restore the route in the network configuration (netplan, NetworkManager, networkd); the gateway on {other} is {gateway}.",
	Manifest: defaultRoutes,
	Radius:   "all that leaves this node's own networks, at once",
}

// defaultRoutes shows the default routes of a node, and what configures its network.
var defaultRoutes = []string{
	"ssh {node} ip route show table all default",
	"ssh {node} 'networkctl --no-pager status; nmcli device status'",
}

// addressFamily is the family of a result, by the address that was asked where it has no other.
func addressFamily(r Finding) int {
	if f := familyOf(r); f != 0 {
		return f
	}
	at, err := netip.ParseAddrPort(r.Facts.Str(probe.FactAddress))
	switch {
	case err != nil:
		return 0
	case at.Addr().Unmap().Is4():
		return 4
	}
	return 6
}
