// Package bgp names the checks of BGP: BIRD, its sessions, configuration and port, and the facts they report. Both
// binaries link it.
package bgp

import (
	"github.com/calico-probe/calico-probe/probe"
)

// Facts of bgp-session's answers about what a session carries, beside imported and exported.
const (
	FactUpdates probe.Fact = "updates" // routes that the peer has sent since the session began
	FactFilters probe.Fact = "filters" // BGPFilters that the session's BGPPeer names
)

// BGPExpected compares the two ends of confd: what the API says about BGP, and the
// peers BIRD was given. A peer that BIRD was never told of is in no list of
// sessions that are down.
var BGPExpected = &probe.Check{
	ID: "bgp-expected", Asks: "does BIRD have every BGP peer that Calico's resources ask for?", From: probe.FromNode,
	Tags: []string{probe.TagBGP}, Access: []string{"run/calico"}, Needs: []string{probe.CheckBirdSocket},
	Doc: `From the Nodes, BGPPeers and BGPConfigurations follows which sessions this node should have: the mesh with every node that is no route reflector, global peers, those that select this node, and the way back of those that select it as a peer. They are compared by address, and by port where BIRD tells it, with the peers BIRD is set to have, whether their sessions are up or not (that is bgp-session).
ok: all are there. fail: BIRD lacks some: confd has not rendered them, because it lost Typha or the API server (bird-config), or BIRD has not loaded its configuration.
info: BIRD has peers that the API does not know: made by hand, or left over from a node or BGPPeer that is gone. Peers among the node's own pods (localWorkloadSelector) are not compared.
unknown: the resources could not be read, or one of them could not be understood. skip: the API expects no session here, or Calico keeps its resources in its own etcd.`,
}

// TargetMD5 is bgp-session's answer about what the kernel drops for a password (TCP MD5).
const TargetMD5 = "TCP MD5"

// Facts of it.
const (
	FactMD5     probe.Fact = "md5"      // which kind was dropped: one of the words below
	FactMD5Grew probe.Fact = "md5_grew" // how many while bgp-session looked
)

// Words of FactMD5, by what the kernel says it has dropped.
const (
	MD5Missing    = "missing"    // this node has a password for the peer, and the segment was not signed
	MD5Unexpected = "unexpected" // the segment was signed, and this node has no password for the peer
)

// BGPPort asks below BGP: can this node open the connection that a session needs,
// from the very address its peers expect?
var BGPPort = &probe.Check{
	ID: "bgp-port", Asks: "does every peer accept BGP connections from the address Calico registered for this node?",
	From: probe.FromNode,
	Tags: []string{probe.TagBGP, probe.TagNetwork}, Access: []string{"host network", "run/calico"},
	Needs: []string{probe.CheckNodeUplink},
	Doc: `A TCP connection to the BGP port of up to eight peers of each family, from the address Calico registered for this node; and who listens on this node's own. The peers are those that Calico's resources ask for, as in bgp-expected: switches and the like first, nodes that the API calls NotReady last. Where the resources could not be read, BIRD's own peers are asked. A peer whose session is up is not disturbed: it counts as ok.
ok: accepted, or the session is up. fail, refused: the peer's host answers but nothing listens there: its BIRD is down, or a firewall rejects the connection. fail, no answer: packets are dropped on the way there or back. fail, rejected: a firewall says so by ICMP. fail, net-unreachable: this node has no route to the peer's address. fail, no-address: the address Calico registered is on no interface of this node any more. fail, nothing listens here: this node's BIRD is down or lost its port to another program.
skip: Calico's networking backend here is not bird, or the API expects no BGP session here. unknown: neither the API nor BIRD names a peer.`,
}

// Facts of bgp-port.
const (
	// where BIRD listens, where that is another port than the configured one
	FactListensAt probe.Fact = "listens_at"
)

// BGPSession asks for every peer what calicoctl node status asks, and what it
// leaves out: the last error, routes, and whether a restart holds routes back.
var BGPSession = &probe.Check{
	ID: "bgp-session", Asks: "is the BGP session with every peer established?", From: probe.FromNode,
	Tags: []string{probe.TagBGP}, Access: []string{"run/calico", "proc", "host network"},
	Needs: []string{probe.CheckNodeUplink, probe.CheckBirdSocket},
	Doc: `Each peer is one result, as BIRD has it: state, since when, last error, routes imported and exported.
ok: Established. fail: any other state. Passive: this side only waits for the peer to connect, so look there. Connect without an error: packets to port 179 are dropped on the way. "Connection refused": the peer's host is up, its BIRD is not. "Network unreachable": this node has no route to the peer's address, often a wrong one. "Connection closed": the peer accepts and does not know this node's address.
One more result is about BIRD as a whole, under its socket. warn: graceful restart: after a start BIRD holds all BGP routes back from the kernel until every peer is up or 240 s have passed; the peers it waits for are named. One dead peer costs the whole time. fail: sessions are up and BIRD's kernel protocol is down or not there, so no route gets into the kernel (warn when Calico configured no session). A peer that Calico did not configure is at most warn, and so is a node that the API calls NotReady.
info: BIRD has no peers at all, or some are down.
warn, under "routes": a session with another node is established and hands over none of this node's blocks, or none of the peer's, though Calico's pools are all to go by BGP: a filter drops them, on the side that the line names.
Where a session is down the kernel's counters of TCP MD5 are read, which both ends of a session with a password have. warn: one grows: segments come here unsigned, or signed where this node has no password, or signed with another. info: one is not zero, and did not grow within these seconds.`,
}

// FactHeard is true where the last error is what the peer said, not BIRD here.
const FactHeard probe.Fact = "heard"

// Facts of the BIRD checks.
const (
	FactRouterID probe.Fact = "router_id" // of BIRD
	FactPeer     probe.Fact = "peer"      // address

	FactState    probe.Fact = "state"     // of the protocol: up, start, ...
	FactBGPState probe.Fact = "bgp_state" // Established, Active, Passive, ...

	FactLastError probe.Fact = "last_error"  // BIRD's words
	FactHold      probe.Fact = "hold_s"      // seconds of silence after which the session ends
	FactHoldLeft  probe.Fact = "hold_left_s" // seconds that are left of these

	FactWaitLeft probe.Fact = "wait_left_s" // seconds it waits at most
	FactBlockers probe.Fact = "blockers"    // of these the peers, the first ten addresses

	FactASNumber probe.Fact = "neighbour_as" // the peer's AS number

	FactKernelState probe.Fact = "kernel_state" // of the protocol that writes routes into the kernel
)

// BirdConfig looks at the file between confd and BIRD. While confd has not
// finished its first rendering BIRD ends at every start, and everybody looks at
// BIRD (projectcalico/calico#8294).
var BirdConfig = &probe.Check{
	ID: "bird-config", Asks: "has confd written BIRD's configuration, and does BIRD use it?", From: probe.FromNode,
	In:   probe.Standard,
	Tags: []string{probe.TagBGP}, Access: []string{"host processes", "SYS_PTRACE", "run/calico"},
	Doc: `BIRD's configuration lies in calico-node's container alone and is written by confd from what the datastore (or Typha) says. This check finds BIRD or its supervisor among the node's processes, reads the file in their root, and compares the peers it names with those BIRD has loaded. Passwords in it are not looked at.
ok: it is there and BIRD has loaded it. info: it names no BGP peer, or it was written less than 30 s ago and is about to be loaded, or BIRD has other peers although it has loaded the file since.
fail, missing or empty: confd has not finished its first rendering: it cannot reach Typha or the API server, so look there and not at BIRD. fail, BIRD does not run while its supervisor or confd does: it ends at every start, because this file is missing or wrong. fail, neither runs: calico-node is not up. fail, not loaded: the file is newer than what BIRD has loaded, and names other peers. warn: it is newer and names the same peers.
skip: Calico's networking backend here has no BIRD, or this node no address of that family; or this access method shows no processes of the node, or may not read their root, which takes SYS_PTRACE.`,
}

// FactRuns is false where BIRD does not run while what runs beside it does. The
// reason is missing or empty for the file, not-loaded for what is in it, and down where
// calico-node's processes are not there at all.
const FactRuns probe.Fact = "runs"

// BirdSocket asks whether BIRD lives, by its control socket: a file left by a
// dead BIRD refuses, a frozen one accepts and stays silent.
var BirdSocket = &probe.Check{
	ID: probe.CheckBirdSocket, Asks: "does BIRD answer on its control socket?", From: probe.FromNode,
	Tags: []string{probe.TagBGP}, Access: []string{"run/calico"},
	Doc: `BIRD carries the routes between nodes, one daemon for IPv4 (bird.ctl) and one for IPv6 (bird6.ctl).
ok: it answers and says that it is up.
fail, refused: the socket exists but nothing listens: BIRD died, often because another program holds port 179.
fail, missing: BIRD never started on this node, usually because calico-node has not finished its start-up.
fail, no answer: it accepts the connection but does not answer: frozen, or starved of CPU.
skip: Calico's networking backend here is not bird (VXLAN, policy only), also where a socket is left over from when it was; or has no address of that family.
unknown: there is no socket, and the plan does not say whether this node should run BIRD; or who listens is not on the node: a process in the network of a pod, or not root's where that is not visible.`,
}
