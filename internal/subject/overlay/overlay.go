// Package overlay names the checks of the overlay: tunnels and the sets of hosts, and the facts they report. Both
// binaries link it.
package overlay

import (
	"github.com/calico-probe/calico-probe/probe"
)

// EncapProof is the proof that ends the argument with the owner of the firewall: a
// packet was sent to the tunnel's port here, and it did or did not come in there.
var EncapProof = &probe.Check{
	ID: "encap-proof", Asks: "do packets of the tunnels and of BGP pass between this node and another, both ways?",
	From: probe.FromNode, In: probe.Deep,
	Access: []string{"host network", "NET_RAW"}, Needs: []string{probe.CheckNodeUplink},
	Doc: `Two probes, one here and one on another node: one listens, and once it does the other sends tokens to the VXLAN port, to the WireGuard port and as IPIP (protocol 4), from the address Calico registered. Then the other way round. To BGP's port each opens a connection, unless their session is up. The listener looks at its interfaces and behind its firewall.
ok: it passed. fail: nothing came in by any interface: something between the nodes drops it (a security group, a cloud that knows no IPIP, a hypervisor that takes UDP 4789 for itself); or it came in, and that node's own firewall dropped it (Felix does so with tunnel packets from an address that is not in its set of nodes); or it could not leave.
info: the same of a way that this cluster does not use.
skip: there is no other node, or no client that could put a probe there (--via local). unknown: none could be put on the other node, or what did not come in may not have been sent in time.`,
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
	ID: "ipset-hosts", Asks: "does this node's firewall take tunnelled packets from every other node?",
	From: probe.FromNode, In: probe.Standard,
	Tags: []string{probe.TagNetwork, probe.TagOverlay, probe.TagFelix}, Access: []string{"host network", "NET_ADMIN"},
	Doc: `Felix lets IPIP and VXLAN packets in from the other nodes' registered addresses only. It keeps those in the sets cali40all-hosts-net (IPIP), cali40all-vxlan-net and cali60all-vxlan-net (VXLAN): as ipsets, or in nftables' table "calico" where Felix works with nftables.
ok: every other node's address is in the set. fail: some are not: what these nodes send through the tunnel is dropped here, while ping between the nodes works. Felix has not heard of the node, or of its new address (it hangs, or has lost its Typha), or cannot write its sets.
skip: no such set here, as without a tunnel and with the eBPF data plane; or Calico keeps what belongs there in its own etcd; or the capability NET_ADMIN is missing. unknown: which addresses belong there could not be learned.`,
}

// Facts of ipset-hosts.
const (
	FactSet    probe.Fact = "set"    // name
	FactAbsent probe.Fact = "absent" // list of node and address
)

// OverlayTunnels compares this node's tunnel devices with what Calico registered for
// them, and their tables with what it registered for the other nodes.
var OverlayTunnels = &probe.Check{
	ID: "overlay-tunnels", Asks: "do this node's tunnel devices exist, and do they lead to the other nodes?",
	From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagOverlay}, Access: []string{"host network", "netlink"},
	Doc: `Where a pool uses IPIP or VXLAN, or WireGuard is on, Felix makes a device for it (tunl0, vxlan.calico, vxlan-v6.calico, wireguard.cali, wg-v6.cali) with the address that Calico keeps for the node. For VXLAN it writes two entries for every other node: its tunnel address has that MAC (a neighbour), and that MAC lives behind the node's own address (the forwarding table, "bridge fdb").
ok: the device is up and as registered; all other nodes have both entries. fail: the device is missing, down, has another address, VNI, UDP port or MAC than registered, or sends from another address than the one Calico registered: nothing comes through. fail, of a device's peers: entries are missing or lead elsewhere, so pods on those nodes are not reached. Felix does not run or could not write, something else (NetworkManager, systemd-networkd, an operator by hand) changed it, or the other node has changed its address and this one has not heard of it. Where a VXLAN device of another CNI (flannel.1, cilium_vxlan) has the VNI and port that Calico's needs, or another process has that UDP port, it is named.
warn: the MTU is not the one that FelixConfiguration sets; or WireGuard's device is up and Calico has no address for this node's end, without encryption between hosts, which needs none. info: a device that no pool uses (left over), or a pool with a tunnel and no tunnel address for this node, as when the pool does not select it.
skip: no pool uses a tunnel, or Calico keeps its settings in its own etcd. unknown: a device is there, and what Calico registered for it could not be read. Not looked at: the peers of WireGuard, and the entries of a VXLAN device in the mode that the eBPF data plane uses, which has none.`,
}

// Facts of overlay-tunnels.
const (
	FactSumsLater probe.Fact = "sums_later" // whether the VXLAN device leaves checksums to what is below it
	FactForeign   probe.Fact = "foreign"    // another VXLAN device that stands in the way of Calico's
	FactCutOff    probe.Fact = "cutoff"     // list of these with wrong entries, and what is wrong
)
