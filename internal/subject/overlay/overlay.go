// Package overlay names the checks of the overlay: tunnels and the sets of hosts, and the facts they report. Both
// binaries link it.
package overlay

import (
	"github.com/calico-probe/calico-probe/probe"
)

// Checks are the checks of this subject, in the order in which they are shown.
func Checks() []*probe.Check {
	return []*probe.Check{OverlayTunnels, IPSetHosts, EncapProof}
}

// EncapProof is the proof that ends the argument with the owner of the firewall: a
// packet was sent to the tunnel's port here, and it did or did not come in there.
var EncapProof = &probe.Check{
	ID:   "encap-proof",
	From: probe.FromNode, In: probe.Deep,
	Access: []string{"host network", "NET_RAW"}, Needs: []string{probe.CheckNodeUplink},
}

// Facts of encap-proof.
const (
	FactReady    probe.Fact = "ready"    // true: from now on nothing is missed
	FactPath     probe.Fact = "path"     // VXLAN, IPIP, WireGuard or BGP
	FactReceiver probe.Fact = "receiver" // the node it was sent to
	FactWire     probe.Fact = "wire"     // true: it came in by an interface
	FactPassed   probe.Fact = "passed"   // true: the listener's firewall let it in
	FactUsed     probe.Fact = "used"     // true: the cluster sends its packets this way
)

// IPSetHosts looks into the sets by which Felix decides whose tunnelled packets it
// takes: what comes from an address that is not in them is dropped without a word.
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

// OverlayTunnels compares this node's tunnel devices with what Calico registered for
// them, and their tables with what it registered for the other nodes.
var OverlayTunnels = &probe.Check{
	ID:   "overlay-tunnels",
	From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagOverlay}, Access: []string{"host network", "netlink"},
}

// Facts of overlay-tunnels.
const (
	FactSumsLater probe.Fact = "sums_later" // whether the VXLAN device leaves checksums to what is below it
	FactForeign   probe.Fact = "foreign"    // another VXLAN device that stands in the way of Calico's
	FactCutOff    probe.Fact = "cutoff"     // list of these with wrong entries, and what is wrong
)
