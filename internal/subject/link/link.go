// Package link names the checks of the link: the node's uplink, addresses, neighbours and sysctls, and the facts they
// report. Both binaries link it.
package link

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks are the checks of this subject, in the order in which they are shown.
func Checks() []*probe.Check {
	return []*probe.Check{NodeUplink, NodePing, IPAutodetect, NodeSysctl, NodeNeighbours, NeighbourReach, UplinkQueue}
}

// IPAutodetect replays how calico-node picks the node's address. In the field a new
// NIC and a bridge made by 'docker network create' were picked, weeks after they
// had come, at the next restart.
var IPAutodetect = &probe.Check{
	ID: "ip-autodetect", From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink"},
}

// Facts of ip-autodetect.
const (
	FactMethod probe.Fact = "method" // as it is set; first-found when it is not
	FactPicked probe.Fact = "picked" // address

	FactCalico       probe.Fact = "calico"       // version
	FactAlternatives probe.Fact = "alternatives" // map of method to what it would pick
	FactKeptOn       probe.Fact = "kept_on"      // the interface that has the registered address, "" for none
	FactKeptOnKind   probe.Fact = "kept_on_kind" // its kind: device, bridge, ...
)

// NeighbourReach looks at another node from outside. It is all there is of a node
// on which nothing can be started: a machine that is off, one that is cut off, and one
// whose kubelet is dead look the same to the API.
var NeighbourReach = &probe.Check{
	ID: "neighbour-reach", From: probe.FromNode, In: probe.Standard,
	Access: []string{"host network", "netlink", "NET_RAW"}, Limit: 14 * time.Second,
}

// FactReference is true on a result about a third node, for comparison.
const FactReference probe.Fact = "reference"

// FactSpeaks is whether who accepted a connection also answered a request there.
const FactSpeaks probe.Fact = "speaks"

// NodeNeighbours asks for the kernel's table of who is on the link: when it
// overflows, a large flat network loses packets at random.
var NodeNeighbours = &probe.Check{
	ID: "node-neighbours", From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink", "proc", "NET_RAW"},
}

// Facts of node-neighbours about another node.
const (
	FactNeighbour probe.Fact = "neighbour" // its state: reachable, stale, failed, permanent, ...
	FactMAC       probe.Fact = "mac"       // that packets for it are sent to
	FactOwnMAC    probe.Fact = "own_mac"   // true: that is the MAC of this node's own interface
)

// NodePing asks whether the other machines are there at all, apart from
// anything Calico does.
var NodePing = &probe.Check{
	ID: "node-ping", From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "NET_RAW"}, Needs: []string{probe.CheckNodeUplink},
}

// NodeSysctl asks for the kernel settings without which a node routes nothing for
// its pods; a tool that "hardens" a node turns them off, at the next boot too.
var NodeSysctl = &probe.Check{
	ID:   "node-sysctl",
	From: probe.FromNode,
	Tags: []string{probe.TagHost, probe.TagNetwork}, Access: []string{"proc", "host network", "netlink"},
}

// TargetRPFilter is node-sysctl's answer about rp_filter; the others are about
// forwarding.
const TargetRPFilter = "rp_filter"

// FactTwins has the MACs of those that answer for one address: of others for the node's own, of two for another node's.
const FactTwins probe.Fact = "twins"

// NodeUplink asks whether packets can leave the node at all. What goes over the
// network needs it: a cable that is out is one failure and not forty.
var NodeUplink = &probe.Check{
	ID: probe.CheckNodeUplink, From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagHost}, Access: []string{"host network", "netlink"},
}

// UplinkQueue asks for what limits how the uplink sends. Tools that test with a slow or lossy network leave it behind
// (chaos-mesh/chaos-mesh#3906), and routes and firewalls do not show it.
var UplinkQueue = &probe.Check{
	ID: "uplink-queue", From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink"},
}
