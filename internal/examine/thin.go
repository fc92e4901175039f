package examine

import (
	"slices"

	"github.com/calico-probe/calico-probe/probe"
)

// maxPeers is the maximum number of other nodes whose blocks and tunnel ends a probe gets in a run over many nodes.
// Without this limit, n probes would each check n nodes. With 5,000 nodes this makes 25 million targets, and a pod
// cannot hold its share.
const maxPeers = 64

// thinned drops blocks and tunnel ends if they belong to more than maxPeers other nodes. It keeps every n-th node,
// counted from the node itself, so each node is checked by the same number of nodes.
func thinned(targets []probe.Target, node string) []probe.Target {
	listed := func(t probe.Target) bool { return t.Kind == probe.KindBlock || t.Kind == probe.KindTunnel }
	names := []string{node}
	for _, t := range targets {
		if listed(t) {
			names = append(names, t.Node)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) <= maxPeers+1 {
		return targets
	}
	at, _ := slices.BinarySearch(names, node)
	stay := map[string]bool{node: true}
	for i := range maxPeers {
		stay[names[(at+1+i*(len(names)-1)/maxPeers)%len(names)]] = true
	}
	return slices.DeleteFunc(targets, func(t probe.Target) bool { return listed(t) && !stay[t.Node] })
}
