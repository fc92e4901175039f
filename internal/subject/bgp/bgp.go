// Package bgp declares the checks of BGP and the facts they report: BIRD, its sessions, configuration and port. Both
// binaries link it. Checks is the entry point. The package reads nothing itself: package ask beside it reads BIRD's
// sockets and configuration on the node, and package cause draws the conclusions. Package suite draws the whole flow.
package bgp

import (
	"github.com/calico-probe/calico-probe/probe"
)

// Checks returns the checks of this subject in display order.
func Checks() []*probe.Check {
	return []*probe.Check{BirdSocket, BGPSession, BirdConfig, BGPExpected, BGPPort}
}

// Facts of bgp-session about the routes of a session, besides imported and exported.
const (
	FactUpdates probe.Fact = "updates" // routes that the peer has sent since the session began
	FactFilters probe.Fact = "filters" // BGPFilters of the session's BGPPeer
)

// BGPExpected compares confd's input and output: the BGP configuration in the API, and BIRD's peers. A peer that is
// missing from BIRD's configuration is not listed as a down session.
var BGPExpected = &probe.Check{
	ID: "bgp-expected", From: probe.FromNode,
	Tags: []string{probe.TagBGP}, Access: []string{"run/calico"}, Needs: []string{probe.CheckBirdSocket},
}

// TargetMD5 is the target of bgp-session's result about segments that the kernel dropped over TCP MD5.
const TargetMD5 = "TCP MD5"

// Facts of the result about TCP MD5.
const (
	FactMD5     probe.Fact = "md5"      // which kind of segment was dropped: one of the MD5 words below
	FactMD5Grew probe.Fact = "md5_grew" // how many were dropped while bgp-session ran
)

// Values of FactMD5, by the kernel's counters.
const (
	MD5Missing    = "missing"    // this node has a password for the peer, and the segment was not signed
	MD5Unexpected = "unexpected" // the segment was signed, and this node has no password for the peer
)

// BGPPort checks the layer below BGP: can this node open the session's TCP connection from the address that the peer
// expects?
var BGPPort = &probe.Check{
	ID:   "bgp-port",
	From: probe.FromNode,
	Tags: []string{probe.TagBGP, probe.TagNetwork}, Access: []string{"host network", "run/calico"},
	Needs: []string{probe.CheckNodeUplink},
}

// Facts of bgp-port.
const (
	// the port on which BIRD listens, if it is not the configured one
	FactListensAt probe.Fact = "listens_at"
)

// BGPSession reports the same as calicoctl node status for each peer, and also the last error, the routes, and a
// graceful restart that delays them.
var BGPSession = &probe.Check{
	ID: "bgp-session", From: probe.FromNode,
	Tags: []string{probe.TagBGP}, Access: []string{"run/calico", "proc", "host network"},
	Needs: []string{probe.CheckNodeUplink, probe.CheckBirdSocket},
}

// FactHeard is true if the peer sent the last error, and false if this BIRD raised it.
const FactHeard probe.Fact = "heard"

// Facts of the BIRD checks.
const (
	FactRouterID probe.Fact = "router_id" // of BIRD
	FactPeer     probe.Fact = "peer"      // address

	FactState    probe.Fact = "state"     // of the protocol: up, start, ...
	FactBGPState probe.Fact = "bgp_state" // Established, Active, Passive, ...

	FactLastError probe.Fact = "last_error"  // as BIRD reports it
	FactHold      probe.Fact = "hold_s"      // seconds of silence after which the session ends
	FactHoldLeft  probe.Fact = "hold_left_s" // seconds until then

	FactWaitLeft probe.Fact = "wait_left_s" // seconds that a graceful restart waits at most
	FactBlockers probe.Fact = "blockers"    // the first ten addresses of peers that it waits for

	FactASNumber probe.Fact = "neighbour_as" // the peer's AS number

	FactKernelState probe.Fact = "kernel_state" // of the protocol that writes routes into the kernel
)

// BirdConfig reads the file that confd writes for BIRD. Until confd has rendered the file once, BIRD exits at each
// start, so a confd fault looks like a BIRD fault (projectcalico/calico#8294).
var BirdConfig = &probe.Check{
	ID: "bird-config", From: probe.FromNode,
	In:   probe.Standard,
	Tags: []string{probe.TagBGP}, Access: []string{"host processes", "SYS_PTRACE", "run/calico"},
}

// FactRuns is false if BIRD does not run, but other processes of its container do. FactReason is then "missing" or
// "empty" for the file, or "not-loaded" for its content. It is "down" if calico-node has no processes.
const FactRuns probe.Fact = "runs"

// BirdSocket checks through the control socket whether BIRD is alive. The socket file of a dead BIRD refuses
// connections. A frozen BIRD accepts them and sends nothing.
var BirdSocket = &probe.Check{
	ID: probe.CheckBirdSocket, From: probe.FromNode,
	Tags: []string{probe.TagBGP}, Access: []string{"run/calico"},
}
