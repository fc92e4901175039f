// Package route names the checks of routes and routing rules, and the facts they report. Both binaries link it.
package route

import (
	"github.com/calico-probe/calico-probe/probe"
)

// RouteBlocks compares what Calico's IPAM says with what the kernel does: every
// block of pod addresses belongs to a node, and the kernel must send there.
var RouteBlocks = &probe.Check{
	ID: "route-blocks", Asks: "does the kernel have a route to every other node's pods, and to the right node?",
	From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink", "run/calico"},
	Needs: []string{probe.CheckNodeUplink},
	Doc: `Every confirmed block affinity of another node needs a route here: by BIRD, or by Felix for VXLAN (and IPIP in new versions). The route is judged by where it leads, not by who made it. An address that a node borrowed out of another node's block needs a route of its own.
ok: all there. fail: some are missing, so pods there cannot be reached from this node. BIRD is asked about those: it knows no route either, so it has no session with that node; or it knows one and has not given it to the kernel, as in a graceful restart, or because it cannot reach the next hop. warn: all that lack a route, here and in BIRD, belong to nodes that the API calls NotReady.
fail: some lead to another machine than the one the block belongs to, as with an affinity that is left over; or to several nodes at once, so that some connections work and others do not; or this node itself swallows them by a blackhole route, as with a block it once had; or a block belongs to two nodes in Calico's IPAM; or an interface of this node that is not Calico's has a range in it, whose route wins over Calico's.
fail: a borrowed address has no route of its own: its pod cannot be reached from this node.
info: some are reached through a router that is no node of the cluster (the fact by_hand: by a route for just that block that somebody made, where BIRD's would stand); where their IP pool is encapsulated and no switch is a BGP peer, no router can know them, and a default route is none for them. info, of this node's own blocks: one has no blackhole route, so packets to pods that are gone leave the node.
skip: Calico's IPAM has no blocks (another IPAM is used), or Calico keeps them in its own etcd. unknown: they could not be read.`,
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
	ID: "route-can-reach", Asks: "by which route and from which address does the kernel send to nodes and pods?",
	From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink"},
	Doc: `The kernel is asked through netlink for the route to each other node, each address Calico registered for it, and a pod there: interface, gateway, source address, the route that matches and who made it.
ok: there is a route. fail: there is none, or one that forbids (unreachable, blackhole, prohibit).
info: a pod is reached by the default route alone, so BIRD or Felix has made no route for its block; normal where the underlying network routes pods itself, otherwise the reason why pod-ping fails.
Told beside it is the default route of each family in which Calico registered an address: info where there is none. Nothing is wrong with that alone, unless service addresses (which no other route covers) or names outside are to be reached.
fail: an address of another node, or of a BGP peer, is an address of this node as well: what is sent there never leaves.
info: towards another node the kernel uses a source address that is not the one Calico registered for this node; peers that expect the registered one refuse the session.`,
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
	ID: "route-pods", Asks: "does each of this node's own pods have its route, by its own interface?",
	From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagCNI}, Access: []string{"host network", "netlink"},
	Doc: `The CNI plugin gives a pod a cali* interface on the node and a route of one address to it; Felix puts the route back when it looks at all of them again. Without it the blackhole route of the node's own block takes the pod's packets, from everywhere, and what the pod sends gets no answer. The name of the interface follows from the pod's, so that the route is compared with the right one.
fail: a running pod has its interface and no route, or the route leads to another interface; an interface that is down has lost its routes by that. warn: interfaces of other pods have no route either, twice within a second and a half: a pod that just comes or goes lacks it for less.
ok: all that are known here have it. skip: no workload pod of this node is known, or none has an interface of Calico's name.`,
}

// Facts of route-pods; FactNoRoute and FactWrong list pods with their addresses, FactPods is
// how many were looked at.
const FactDown probe.Fact = "down" // of the interfaces of pods without a route: those that are down

// RouteRules asks whether rules of others take packets away from the table in which Calico's routes are
// (nm-cloud-setup, projectcalico/calico#4662).
var RouteRules = &probe.Check{
	ID: "route-rules", Asks: "does a routing rule of others divert or reject packets for pods?", From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink"},
	Doc: `Calico's routes are in the kernel's main table. A rule that comes before it ("ip rule") sends some packets to another table: NetworkManager's nm-cloud-setup makes one for each address of the node, with a default route in its table; so do cloud-init, hand-made policy routing and VPNs. Packets from such an address for pods then leave by the gateway, whatever Calico's routes say.
The kernel is asked for the way from this node's registered address to its own pods and to pods on other nodes, where Calico makes the routes to them, and from its own pods to those: with the sender's address, and without, which no rule with a sender catches. Where both differ, and the way with it is in the table of such a rule, the rule is what makes the difference; so is one that catches every sender, as a VPN's does, where the main table has a route of Calico's that packets do not take, or the address is of a block of Calico's. A rule may also drop or reject what comes from pods (blackhole, unreachable, prohibit): the kernel then has no way for a packet with that sender, and Calico's own check of the reverse path drops packets between such pods.
The rule that leads to the main table at all is the kernel's own (32766), and programs that take others' rules for their own delete it, as systemd-networkd does where it manages foreign rules: then nothing of that family leaves the node, nor any answer.
ok: there is no such rule, or none makes a difference. fail: one does, or no rule leads to the main table, which has routes. skip: nobody to ask about. Rules for marked packets (Calico's own, of WireGuard and eBPF) are not looked at.`,
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
	ID: "route-special", Asks: "does a route of others drop, divert or keep what is for a node, a pod, a Service or the API server?",
	From: probe.FromNode, Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink"},
	Doc: `A route of the type blackhole, unreachable or prohibit drops what it matches. BIRD and Felix make blackhole routes for the blocks of pod addresses of the node itself; for the address of another node, of a Service or of the API server nobody of Calico's or Kubernetes' makes one: such a route is a ban (fail2ban's route action, a script against attackers), a VPN's or a firewall's, in any routing table that a rule leads to.
The kernel is asked for the way to each; where it refuses, the routes of these types are listed and the narrowest that matches is named, with who made it (its protocol: static or boot is a person, a script or systemd-networkd). Where none matches, a routing rule of these types ("ip rule ... prohibit") is named. Asked too is the gateway of pods, 169.254.1.1: where a route drops what is for it, the node does not answer its pods.
A route of the type local that the kernel did not make itself delivers packets to the node: for the range of its pods, none of them gets any, and the node drops what they send as forged. Guest agents of clouds (GCE) make such routes, with protocol 66, for alias addresses.
ok: none. fail: such a route or rule drops what is for one of these. info: a route of its own leads to another node that is on the same link by a gateway or by another interface, which somebody made. Blackhole routes of BIRD and Felix are those of route-blocks.`,
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
	ID: "untracked-rules", Asks: "do firewall rules of others keep packets for Services or pods from being tracked?",
	From: probe.FromNode, In: probe.Standard,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink", "NET_ADMIN"},
	Doc: `kube-proxy's rules translate a Service's address once for each connection, and Calico's let answers back by the state of the connection. A rule with NOTRACK (iptables' table raw, "notrack" of nftables) keeps packets out of both: what is for the Service's address leaves the node untranslated and is lost, while the pods behind it answer. NodeLocal DNSCache makes such rules for the DNS Service's address, because it listens on that address itself; they stay when it is removed or its interface goes away. Others are made to spare the table of connections.
ok: no rule of others matches. fail: one matches the address and port of a Service, and no interface of the node has that address, or nothing listens there. warn: one matches a pod of the node: what policies let in is not let back out. info: a rule may match, it asks for more than is looked at (an interface, a set, a mark). Calico's own rules (cali-*) are not looked at; neither are the rules of kube-proxy.`,
}

// XFRMPolicies asks for IPsec of others that takes the packets that Calico sends (projectcalico/calico#4744).
var XFRMPolicies = &probe.Check{
	ID: "xfrm-policies", Asks: "does IPsec of others block or encrypt what goes between nodes, pods and Services?",
	From: probe.FromNode, In: probe.Standard,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink", "NET_ADMIN"},
	Doc: `Calico does not use IPsec. A VPN on the node (strongSwan, Libreswan, a cloud's agent) gives the kernel policies: what goes from one range to another has to be encrypted. Where its ranges are those of pods, Services or nodes, it takes their packets from Calico, after routing and after every rule of the firewall, so neither routes nor firewalls show it; and where there is no security association, as after the other end went away, the kernel drops them. Such policies stay when the daemon is killed.
The policy that the kernel would use is looked for (the lowest priority of those that match) for packets from this node and its pods to other nodes, pods, Services and the API server, and back.
ok: none matches. fail: one blocks such packets. warn: one wants them encrypted, and there is no security association for it: they are dropped, or wait for one. info: they are encrypted. Policies of sockets, of marked packets and of interfaces of the kind xfrm are not looked at.`,
}

// Facts of xfrm-policies.
const (
	FactSelector  probe.Fact = "selector"  // what the policy matches, as 'ip xfrm policy' shows it
	FactDirection probe.Fact = "direction" // out, in, fwd

	FactFrom probe.Fact = "from_range" // its ranges
	FactTo   probe.Fact = "to_range"
)
