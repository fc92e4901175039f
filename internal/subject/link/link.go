// Package link names the checks of the link: the node's uplink, addresses, neighbours and sysctls, and the facts they
// report. Both binaries link it.
package link

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// IPAutodetect replays how calico-node picks the node's address. In the field a new
// NIC and a bridge made by 'docker network create' were picked, weeks after they
// had come, at the next restart.
var IPAutodetect = &probe.Check{
	ID: "ip-autodetect", Asks: "which address would Calico pick for this node, by the configured method and by each other?", From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink"},
	Doc: `calico-node looks at the interfaces from the newest to the oldest and takes the first address that its method allows; what is left out by default depends on its version. It looks again every minute (from v3.16) or at its next start.
ok: its method picks the address that is registered. info: so it does, and the address is not the node's InternalIP; or the address is set by hand; or nothing is registered yet.
fail: its method picks another address than the registered one, which will change; or the method does not exist in this version. warn: its method finds nothing, so the registered address is kept.
skip: detection is turned off for that family. The evidence lists what each other method would pick, and how many other nodes are reached through that interface.`,
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
	ID: "neighbour-reach", Asks: "is the node reachable from other nodes?", From: probe.FromNode, In: probe.Standard,
	Access: []string{"host network", "netlink", "NET_RAW"}, Limit: 14 * time.Second,
	Doc: `Probes on other nodes test the node in question: does it answer a ping, connections to sshd, to its kubelet and to BGP, and does a workload pod on it answer a ping? One healthy node does so in every standard run, more when something is wrong or no probe can be placed on the node. The kubelet of a third node is tried too, for comparison. BGP's port is not tried while a session is up (skip): BIRD would take that for a restart, and a session stays up for minutes after the other end has died.
ok: it answers. Where the node answers a ping and full-size packets to it are lost without an ICMP error, the result says which size passes. On the kubelet's port it also says whether the kubelet answered a request (with 401, mostly) or only the kernel accepted the connection, as for a kubelet that is frozen. fail, timeout: nothing comes back. fail, refused: the machine answers and nothing listens there: on the kubelet's port, the kubelet is down and the machine is not. fail, host-unreachable: no host on the link answers ARP or NDP for the address. Where both share a link, the state of the ARP entry tells a machine that is off or cut off (failed, incomplete) from one that drops packets (reachable); of a node of which nothing is heard it takes eight seconds more to be told.
info: sshd does not answer and something else does, as many nodes have none; or a ping does not come back and something else does, as where a network lets none through.
unknown, of BGP: nothing comes back and the session has a password, or whether it has one is not known: what comes without it is dropped like that. warn or unknown, of a pod: a network policy may forbid the ping. skip: there is no other node to test from, or --peers 0. The verdict counts results that sum these up (targets kubelet, pods, node-ports). fail: two nodes cannot reach a pod of the node. warn: one node cannot, or a NodePort does not answer at it, or its kubelet is closed to nodes that reach another one's. info: its kubelet is closed to a node of another role.`,
}

// FactReference is true on a result about a third node, for comparison.
const FactReference probe.Fact = "reference"

// FactSpeaks is whether who accepted a connection also answered a request there.
const FactSpeaks probe.Fact = "speaks"

// NodeNeighbours asks for the kernel's table of who is on the link: when it
// overflows, a large flat network loses packets at random.
var NodeNeighbours = &probe.Check{
	ID: "node-neighbours", Asks: "does the node know its neighbours on the link?", From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "netlink", "proc", "NET_RAW"},
	Doc: `The ARP table and its counterpart for IPv6: how full it is, and whether another node that is on the same link does not answer: one that once did not is asked for again by a ping.
ok: room enough. warn: 80 % of gc_thresh3. fail: full ("neighbour table overflow"); or another node on the link does not answer for its address: it is down, or the link between is.
fail too: the link says that another node has the MAC address of this one's own interface, as two copies of one virtual machine have; or another machine answers ARP for the node's own IPv4 address.
info: two MACs answer ARP for another node's address: two machines have it, or one with two NICs on this link; the kernel does not say how many entries there may be; a node that once did not answer could not be asked for again; or an entry for another node is permanent, so that somebody made it: the kernel does not ask who has that address.`,
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
	ID: "node-ping", Asks: "do the other nodes answer a ping?", From: probe.FromNode,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "NET_RAW"}, Needs: []string{probe.CheckNodeUplink},
	Doc: `Five packets (three in a quick run) to each address of up to eight other nodes: their InternalIPs, and the address Calico registered for them where that is another one.
ok: all came back. Where some did not, fifty more measure how many: fail from one in ten on, else warn. warn: several nodes were asked and not one answered, which is how it looks where a network lets no ping through. warn: none did, and the machine answers at TCP 10250: ping is switched off there (icmp_echo_ignore_all), or blocked. fail: none did, while others answer or there is only this one, and what came instead: no route on this node, a router's refusal, the node's own firewall.
An address Calico registered that does not answer while the InternalIP does is the wrong NIC, picked by autodetection. Some clouds drop all ICMP: then nobody answers here while pod-ping and bgp-session are good.
unknown: no right to open an ICMP socket.`,
}

// NodeSysctl asks for the kernel settings without which a node routes nothing for
// its pods; a tool that "hardens" a node turns them off, at the next boot too.
var NodeSysctl = &probe.Check{
	ID: "node-sysctl", Asks: "does the kernel forward packets, and which does it refuse by where they come from?",
	From: probe.FromNode,
	Tags: []string{probe.TagHost, probe.TagNetwork}, Access: []string{"proc", "host network", "netlink"},
	Doc: `Pods' packets pass a node only when it forwards. Felix turns forwarding on when it starts; something else can turn it off again.
ok: on. fail: off: no pod on this node reaches anything beyond it. skip: the kernel has no such setting, or Calico has no address of that family here.
rp_filter, on the interface with the node's address, on Calico's tunnels and pods' interfaces: 1 (strict) drops what comes in by another way than answers leave, 2 (loose) only what nobody could answer; the higher of an interface's own and that of all counts.
ok: as it is. info: strict, and the kernel has dropped packets for it since boot: a few are usual, many that grow are a node with two ways to its peers. warn: loose on a Calico up to v3.11, whose Felix does not start then ("Kernel's RPF check is set to 'loose'") unless IgnoreLooseRPF is set.`,
}

// TargetRPFilter is node-sysctl's answer about rp_filter; the others are about
// forwarding.
const TargetRPFilter = "rp_filter"

// FactTwins has the MACs of those that answer for one address: of others for the node's own, of two for another node's.
const FactTwins probe.Fact = "twins"

// NodeUplink asks whether packets can leave the node at all. What goes over the
// network needs it: a cable that is out is one failure and not forty.
var NodeUplink = &probe.Check{
	ID: probe.CheckNodeUplink, Asks: "is the interface with the node's address up?", From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagHost}, Access: []string{"host network", "netlink"},
	Doc: `The interface that has the address Calico registered for the node, or else its InternalIP (without the API: the kubelet's --node-ip), in each family.
ok: up, with a carrier. fail: switched off, or without a carrier (a cable, a switch port, a bond without a working member): then nothing else is asked over the network, because all of it would fail for this one reason.
warn: the same of an interface with the registered address while another one, with an InternalIP, is up: a NIC or a bridge that Calico should not have picked.
info: no interface here has such an address (the ip checks say more), or none is known.`,
}
