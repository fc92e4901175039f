// Package cause has the causes of firewalls, policies and conntrack, and of places where packets die: what each looks
// like in the findings of a run, and its fix. The client alone links it.
package cause

import "github.com/calico-probe/calico-probe/internal/diagnose"

// Rules are the causes of this subject.
var Rules = []*diagnose.Rule{
	hostEndpointBlocks, hostEndpointIsolates, nodeTurnsAway, conntrackIdle, portWalled, ruleDrops, sourceUnexpected,
	droppedHere, firewallRejects, podsFiltered, peerWalled, uplinkDown, firewallRewritten, firewallTwice,
	firewallUnhooked, firewallForwardDrop, policyForbids,
}
