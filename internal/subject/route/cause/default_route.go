package cause

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/node"
)

// defaultRouteMissing is a node without a route for what is not its neighbourhood.
var defaultRouteMissing = &diagnose.Rule{
	ID: "default-route-missing", Layer: diagnose.LayerKernel, Title: "the node has no default route, and needs one",
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
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range f.With(route.RouteCanReach.ID, route.FactDefault, false) {
			var refused []diagnose.Finding
			for _, id := range []string{datastore.DatastoreLatency.ID, service.ServiceClusterIP.ID, dns.DNSCluster.ID,
				dns.DNSExternal.ID, datastore.TyphaReach.ID} {
				refused = append(refused, diagnose.Keep(f.Bad(id), func(b diagnose.Finding) bool {
					return b.From == "" && diagnose.ReasonOf(b) == evidence.NoWay && addressFamily(b) == diagnose.FamilyOf(r)
				})...)
			}
			if len(refused) == 0 {
				continue
			}
			c := diagnose.Case{
				About: diagnose.FamilyName(diagnose.FamilyOf(r)), Family: diagnose.FamilyOf(r),
				Covers: slices.Concat(evidence.Serviceless, evidence.CalicoDown, evidence.Unpulled(f, facts.RefusedByWay)),
				For:    append(diagnose.Suggests(refused), diagnose.Hints([]diagnose.Finding{r})...),
				Says:   fmt.Sprintf("{node} has no default route, so %s is out of reach: %s", refused[0].Target, refused[0].Saw),
			}
			for _, o := range f.Elsewhere(route.RouteCanReach.ID) {
				if gateway := o.Facts.Str(node.FactGateway); gateway != "" && o.Facts[route.FactDefault] == true &&
					diagnose.FamilyOf(o) == diagnose.FamilyOf(r) && c.Fix == nil {
					c.Fix, c.Args = &routeByOther, map[string]diagnose.Arg{"gateway": diagnose.AddressArg(gateway),
						"other": diagnose.NodeArg(o.Node)}
				}
				if o.Facts[route.FactDefault] == false && diagnose.FamilyOf(o) == diagnose.FamilyOf(r) { // others do without
					c.Against = append(c.Against, diagnose.Suggests([]diagnose.Finding{o})...)
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
func addressFamily(r diagnose.Finding) int {
	if f := diagnose.FamilyOf(r); f != 0 {
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
