// Package link declares the checks of the link and the facts they report: the node's uplink, addresses, neighbours and
// sysctls. Both binaries link it. Checks is the entry point. The package sends nothing itself: package ask beside it
// does so on the node, and package cause draws the conclusions. Package suite draws the whole flow.
package link

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks returns the checks of this subject in display order.
func Checks() []*probe.Check {
	return []*probe.Check{NodeUplink, NodePing, IPAutodetect, NodeSysctl, NodeNeighbours, NeighbourReach, UplinkQueue}
}

// IPAutodetect replays calico-node's autodetection of the node's address. In the field, it picked a new NIC, or a
// bridge of 'docker network create', at a restart weeks after the interface appeared.
var IPAutodetect = &probe.Check{
	ID: "ip-autodetect", From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink"},
}

// Facts of ip-autodetect.
const (
	FactMethod probe.Fact = "method" // as configured, first-found if it is not
	FactPicked probe.Fact = "picked" // address

	FactCalico       probe.Fact = "calico"       // version
	FactAlternatives probe.Fact = "alternatives" // map of method to the address it would pick
	FactKeptOn       probe.Fact = "kept_on"      // the interface with the registered address, or ""
	FactKeptOnKind   probe.Fact = "kept_on_kind" // its kind: device, bridge, ...
)

// NeighbourReach examines another node from outside. Where no probe can start, this is the only evidence. In the API, a
// machine that is off, cut off or without a kubelet looks the same.
var NeighbourReach = &probe.Check{
	ID: "neighbour-reach", From: probe.FromNode, In: probe.Standard,
	Access: []string{"host network", "netlink", "NET_RAW"}, Limit: 14 * time.Second,
}

// FactReference is true in a result about a third node, for comparison.
const FactReference probe.Fact = "reference"

// FactSpeaks is whether the server that accepted the connection also answered a request.
const FactSpeaks probe.Fact = "speaks"

// NodeNeighbours reads the kernel's ARP and NDP tables. If they overflow, a large flat network loses packets at random.
var NodeNeighbours = &probe.Check{
	ID: "node-neighbours", From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink", "proc", "NET_RAW"},
}

// Facts of node-neighbours about another node.
const (
	FactNeighbour probe.Fact = "neighbour" // its state: reachable, stale, failed, permanent, ...
	FactMAC       probe.Fact = "mac"       // to which the kernel sends packets for it
	FactOwnMAC    probe.Fact = "own_mac"   // true if that is the MAC of this node's own interface
)

// NodePing checks whether the other machines answer, independently of Calico.
var NodePing = &probe.Check{
	ID: "node-ping", From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "NET_RAW"}, Needs: []string{probe.CheckNodeUplink},
}

// NodeSysctl checks the kernel settings without which a node routes no packets for its pods. Hardening tools turn these
// settings off, again at each boot.
var NodeSysctl = &probe.Check{
	ID:   "node-sysctl",
	From: probe.FromNode,
	Tags: []string{probe.TagHost, probe.TagNetwork}, Access: []string{"proc", "host network", "netlink"},
}

// TargetRPFilter is the target of node-sysctl's result about rp_filter. Its other results are about forwarding.
const TargetRPFilter = "rp_filter"

// FactTwins lists the MACs that answer for one address: foreign ones for the node's own, or two for another node's.
const FactTwins probe.Fact = "twins"

// NodeUplink checks whether packets can leave the node. Checks that use the network need it, so that an unplugged cable
// is one failure, not forty.
var NodeUplink = &probe.Check{
	ID: probe.CheckNodeUplink, From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagHost}, Access: []string{"host network", "netlink"},
}

// UplinkQueue checks whether a queueing discipline limits or delays the uplink. Tools that simulate slow or lossy
// networks may leave one behind (chaos-mesh/chaos-mesh#3906). Routes and firewalls do not show it.
var UplinkQueue = &probe.Check{
	ID: "uplink-queue", From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink"},
}
