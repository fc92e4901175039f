// Package overlay declares the checks of the overlay and the facts they report: tunnels, and Felix's sets of hosts.
// Both binaries link it. Checks is the entry point. The package sends nothing itself: package ask beside it does so on
// the node, package api reads the pools, and package cause draws the conclusions. Package suite draws the whole flow.
package overlay

import (
	"github.com/calico-probe/calico-probe/probe"
)

// Checks returns the checks of this subject in display order.
func Checks() []*probe.Check {
	return []*probe.Check{OverlayTunnels, IPSetHosts, EncapProof}
}

// EncapProof is the proof for the firewall's owner: one node sends a packet to another node's tunnel port, and that
// node reports whether the packet arrived.
var EncapProof = &probe.Check{
	ID:   "encap-proof",
	From: probe.FromNode, In: probe.Deep,
	Access: []string{"host network", "NET_RAW"}, Needs: []string{probe.CheckNodeUplink},
}

// Facts of encap-proof.
const (
	FactReady    probe.Fact = "ready"    // true: the listener now sees each packet
	FactPath     probe.Fact = "path"     // VXLAN, IPIP, WireGuard or BGP
	FactReceiver probe.Fact = "receiver" // the node to which it was sent
	FactWire     probe.Fact = "wire"     // true: it arrived on an interface
	FactPassed   probe.Fact = "passed"   // true: the listener's firewall accepted it
	FactUsed     probe.Fact = "used"     // true: the cluster uses this path
)

// IPSetHosts reads the sets of addresses from which Felix accepts tunnelled packets. Felix drops packets from other
// addresses silently.
var IPSetHosts = &probe.Check{
	ID:   "ipset-hosts",
	From: probe.FromNode, In: probe.Standard,
	Tags: []string{probe.TagNetwork, probe.TagOverlay, probe.TagFelix}, Access: []string{"host network", "NET_ADMIN"},
}

// Facts of ipset-hosts.
const (
	FactSet    probe.Fact = "set"    // name
	FactAbsent probe.Fact = "absent" // list of node and address
)

// OverlayTunnels compares this node's tunnel devices with their registration in Calico, and compares the devices'
// tables with the other nodes' registrations.
var OverlayTunnels = &probe.Check{
	ID:   "overlay-tunnels",
	From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagOverlay}, Access: []string{"host network", "netlink"},
}

// Facts of overlay-tunnels.
const (
	FactSumsLater probe.Fact = "sums_later" // whether the VXLAN device leaves checksums to what is below it
	FactForeign   probe.Fact = "foreign"    // another VXLAN device that conflicts with Calico's
	FactCutOff    probe.Fact = "cutoff"     // list of nodes with wrong entries, and what is wrong
)
