// Package cause has the causes of routes and routing rules, and paths between nodes: what each looks like in the
// findings of a run, and its fix. The client alone links it.
package cause

import "github.com/calico-probe/calico-probe/internal/diagnose"

// Rules are the causes of this subject.
var Rules = []*diagnose.Rule{
	familyCutOff, mainRuleMissing, defaultRouteMissing, interfaceOverlapsNodes, podInterfaceSetting, routeDrops,
	ipsecTakes, untrackedService, foreignRoutingRule, packetsLost, peerDown, nodeCutOff, peerPods, nodesApart, peerFault,
	blockOwnedTwice, interfaceOverlaps, routeSwallowed, routeElsewhere, routeNotInKernel, podRouteMissing,
	podNetworkBroken, routeMakersClash, routeNotMade, podsNotMasqueraded, poolNotExported, poolOverlaps,
}
