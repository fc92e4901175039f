// Package bgp names the checks of BGP: BIRD, its sessions, configuration and port, and the facts they report. Both
// binaries link it.
package bgp

import (
	"github.com/calico-probe/calico-probe/probe"
)

// Checks are the checks of this subject, in the order in which they are shown.
func Checks() []*probe.Check {
	return []*probe.Check{BirdSocket, BGPSession, BirdConfig, BGPExpected, BGPPort}
}

// Facts of bgp-session's answers about what a session carries, beside imported and exported.
const (
	FactUpdates probe.Fact = "updates" // routes that the peer has sent since the session began
	FactFilters probe.Fact = "filters" // BGPFilters that the session's BGPPeer names
)

// BGPExpected compares the two ends of confd: what the API says about BGP, and the
// peers BIRD was given. A peer that BIRD was never told of is in no list of
// sessions that are down.
var BGPExpected = &probe.Check{
	ID: "bgp-expected", From: probe.FromNode,
	Tags: []string{probe.TagBGP}, Access: []string{"run/calico"}, Needs: []string{probe.CheckBirdSocket},
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
	ID:   "bgp-port",
	From: probe.FromNode,
	Tags: []string{probe.TagBGP, probe.TagNetwork}, Access: []string{"host network", "run/calico"},
	Needs: []string{probe.CheckNodeUplink},
}

// Facts of bgp-port.
const (
	// where BIRD listens, where that is another port than the configured one
	FactListensAt probe.Fact = "listens_at"
)

// BGPSession asks for every peer what calicoctl node status asks, and what it
// leaves out: the last error, routes, and whether a restart holds routes back.
var BGPSession = &probe.Check{
	ID: "bgp-session", From: probe.FromNode,
	Tags: []string{probe.TagBGP}, Access: []string{"run/calico", "proc", "host network"},
	Needs: []string{probe.CheckNodeUplink, probe.CheckBirdSocket},
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
	ID: "bird-config", From: probe.FromNode,
	In:   probe.Standard,
	Tags: []string{probe.TagBGP}, Access: []string{"host processes", "SYS_PTRACE", "run/calico"},
}

// FactRuns is false where BIRD does not run while what runs beside it does. The
// reason is missing or empty for the file, not-loaded for what is in it, and down where
// calico-node's processes are not there at all.
const FactRuns probe.Fact = "runs"

// BirdSocket asks whether BIRD lives, by its control socket: a file left by a
// dead BIRD refuses, a frozen one accepts and stays silent.
var BirdSocket = &probe.Check{
	ID: probe.CheckBirdSocket, From: probe.FromNode,
	Tags: []string{probe.TagBGP}, Access: []string{"run/calico"},
}
