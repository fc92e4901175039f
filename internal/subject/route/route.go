// Package route names the checks of routes and routing rules, and the facts they report. Both binaries link it.
package route

import (
	"github.com/calico-probe/calico-probe/probe"
)

// Checks are the checks of this subject, in the order in which they are shown.
func Checks() []*probe.Check {
	return []*probe.Check{RouteCanReach, RouteBlocks, RoutePods, RouteRules, RouteSpecial, XFRMPolicies, Untracked}
}

// RouteBlocks compares what Calico's IPAM says with what the kernel does: every
// block of pod addresses belongs to a node, and the kernel must send there.
var RouteBlocks = &probe.Check{
	ID:   "route-blocks",
	From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink", "run/calico"},
	Needs: []string{probe.CheckNodeUplink},
}

// Facts of route-blocks.
const (
	FactWrong     probe.Fact = "wrong"      // list of block, node and where the route leads
	FactNoRoute   probe.Fact = "noroute"    // list of block and node
	FactSwallowed probe.Fact = "swallowed"  // list of block and node
	FactShared    probe.Fact = "shared"     // list of block and the nodes it belongs to
	FactOverlaps  probe.Fact = "overlaps"   // list of an interface here with its range, and the block and node
	FactOverlapOn probe.Fact = "overlap_on" // the first of these interfaces
	FactByHand    probe.Fact = "by_hand"    // list of block and node: through a router, by a route that no daemon made
	FactOwners    probe.Fact = "owners"     // by wrong, swallowed, shared, overlaps, by_hand: by block, its nodes
	// of those without a route, the ones BIRD knows, and from which of its protocols
	FactInBIRD probe.Fact = "in_bird"
	// of those without a route, the ones whose route Felix makes: of VXLAN pools, or by programClusterRoutes
	FactByFelix probe.Fact = "by_felix"
)

// RouteCanReach asks the kernel what it would do with a packet, which is what
// Calico's can-reach autodetection does to pick an address.
var RouteCanReach = &probe.Check{
	ID:   "route-can-reach",
	From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink"},
}

// Facts of the route check.
const (
	FactMatch      probe.Fact = "match"   // the route that matches, as a prefix
	FactRouteProto probe.Fact = "proto"   // who made it: bird, kernel, boot, felix, ...
	FactDefault    probe.Fact = "default" // whether there is a default route

	FactOwnedBy probe.Fact = "owned_by" // the interface of this node that has another node's address too
)

// RoutePods asks for the last step of a packet to a pod of this node: the block's route
// brings it to the node, and one of the pod's own into the pod.
var RoutePods = &probe.Check{
	ID:   "route-pods",
	From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagCNI}, Access: []string{"host network", "netlink"},
}

// Facts of route-pods; FactNoRoute and FactWrong list pods with their addresses, FactPods is
// how many were looked at.
const FactDown probe.Fact = "down" // of the interfaces of pods without a route: those that are down

// RouteRules asks whether rules of others take packets away from the table in which Calico's routes are
// (nm-cloud-setup, projectcalico/calico#4662).
var RouteRules = &probe.Check{
	ID: "route-rules", From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink"},
}

// Facts of route-rules.
const (
	FactPref  probe.Fact = "pref"  // its priority
	FactTable probe.Fact = "table" // the number of the routing table it leads to
	// true: the rule drops or rejects packets by their sender, and leads to no table
	FactRejects probe.Fact = "rejects"
	// true: no rule leads to the main table
	FactMainless probe.Fact = "mainless"
)

// RouteSpecial asks for routes that somebody made to drop packets, or to lead them past the link that a node
// is on (fail2ban/fail2ban#104, projectcalico/calico#11607).
var RouteSpecial = &probe.Check{
	ID:   "route-special",
	From: probe.FromNode, Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink"},
}

// Facts of route-special.
const (
	FactRoute     probe.Fact = "route"      // as 'ip route' shows it
	FactRouteType probe.Fact = "route_type" // blackhole, unreachable, prohibit, local; "" = an astray one
	FactMeant     probe.Fact = "meant_for"  // list of the targets that it is about
	FactTowards   probe.Fact = "towards"    // list of the kinds of these: node, pod, service, api, gateway
)

// Untracked asks for rules by which packets get no connection, and so no address behind a Service
// (kubernetes/kubernetes#98758).
var Untracked = &probe.Check{
	ID:   "untracked-rules",
	From: probe.FromNode, In: probe.Standard,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink", "NET_ADMIN"},
}

// XFRMPolicies asks for IPsec of others that takes the packets that Calico sends (projectcalico/calico#4744).
var XFRMPolicies = &probe.Check{
	ID:   "xfrm-policies",
	From: probe.FromNode, In: probe.Standard,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink", "NET_ADMIN"},
}

// Facts of xfrm-policies.
const (
	FactSelector  probe.Fact = "selector"  // what the policy matches, as 'ip xfrm policy' shows it
	FactDirection probe.Fact = "direction" // out, in, fwd

	FactFrom probe.Fact = "from_range" // its ranges
	FactTo   probe.Fact = "to_range"
)
