// Package route declares the checks of routes and routing rules, and the facts they report. Both binaries link it.
// Checks is the entry point. The package reads no table itself: package ask beside it does so on the node, package api
// reads Calico's pools and blocks, and package cause draws the conclusions. Package suite draws the whole flow.
package route

import (
	"github.com/calico-probe/calico-probe/probe"
)

// Checks returns the checks of this subject in display order.
func Checks() []*probe.Check {
	return []*probe.Check{RouteCanReach, RouteBlocks, RoutePods, RouteRules, RouteSpecial, XFRMPolicies, Untracked}
}

// RouteBlocks compares Calico's IPAM with the kernel's routes: each block of pod addresses belongs to a node, and the
// kernel must route it there.
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
	FactShared    probe.Fact = "shared"     // list of block and the nodes that own it
	FactOverlaps  probe.Fact = "overlaps"   // list of an interface here with its range, and the block and node
	FactOverlapOn probe.Fact = "overlap_on" // the first of these interfaces
	FactByHand    probe.Fact = "by_hand"    // list of block and node: through a router, by a route that no daemon set
	FactOwners    probe.Fact = "owners"     // for wrong, swallowed, shared, overlaps, by_hand: map of block to its nodes
	// blocks without a kernel route that are in BIRD, each with its protocol in BIRD
	FactInBIRD probe.Fact = "in_bird"
	// blocks without a route for which Felix sets routes: of VXLAN pools, or by programClusterRoutes
	FactByFelix probe.Fact = "by_felix"
)

// RouteCanReach looks up the kernel's route to each target, as 'ip route get' does. Calico's can-reach autodetection
// picks an address the same way.
var RouteCanReach = &probe.Check{
	ID:   "route-can-reach",
	From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink"},
}

// Facts of route-can-reach.
const (
	FactMatch      probe.Fact = "match"   // the route that matches, as a prefix
	FactRouteProto probe.Fact = "proto"   // the route's origin: bird, kernel, boot, felix, ...
	FactDefault    probe.Fact = "default" // whether a default route exists

	FactOwnedBy probe.Fact = "owned_by" // the interface of this node that also has another node's address
)

// RoutePods checks the last hop to a pod of this node: the block's route leads to the node, and the pod's route leads
// into the pod.
var RoutePods = &probe.Check{
	ID:   "route-pods",
	From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagCNI}, Access: []string{"host network", "netlink"},
}

// FactDown lists the interfaces that are down, of pods without a route. In route-pods, FactNoRoute and FactWrong list
// pods with their addresses, and FactPods is how many the check examined.
const FactDown probe.Fact = "down"

// RouteRules looks for foreign rules that bypass the table with Calico's routes (nm-cloud-setup,
// projectcalico/calico#4662).
var RouteRules = &probe.Check{
	ID: "route-rules", From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink"},
}

// Facts of route-rules.
const (
	FactPref  probe.Fact = "pref"  // its priority
	FactTable probe.Fact = "table" // the number of the rule's routing table
	// true: the rule drops or rejects packets by their source address, and selects no table
	FactRejects probe.Fact = "rejects"
	// true: no rule selects the main table
	FactMainless probe.Fact = "mainless"
)

// RouteSpecial looks for routes that an administrator or tool added to drop packets, or to send them away from the
// node's own link (fail2ban/fail2ban#104, projectcalico/calico#11607).
var RouteSpecial = &probe.Check{
	ID:   "route-special",
	From: probe.FromNode, Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink"},
}

// Facts of route-special.
const (
	FactRoute     probe.Fact = "route"      // as 'ip route' shows it
	FactRouteType probe.Fact = "route_type" // blackhole, unreachable, prohibit, local; "" = away from the link
	FactMeant     probe.Fact = "meant_for"  // list of the targets that it affects
	FactTowards   probe.Fact = "towards"    // list of the kinds of these: node, pod, service, api, gateway
)

// Untracked looks for rules that exempt packets from connection tracking. The kernel then cannot translate a Service's
// address (kubernetes/kubernetes#98758).
var Untracked = &probe.Check{
	ID:   "untracked-rules",
	From: probe.FromNode, In: probe.Standard,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink", "NET_ADMIN"},
}

// Facts of untracked-rules.
const (
	FactWall        probe.Fact = "wall"         // the firewall that has the rule: legacy iptables, iptables-nft, nftables
	FactHandle      probe.Fact = "handle"       // the rule's number in nftables
	FactTableFamily probe.Fact = "table_family" // of its table: ip, ip6, inet
)

// XFRMPolicies looks for IPsec policies, not of Calico, that match packets that Calico sends
// (projectcalico/calico#4744).
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
