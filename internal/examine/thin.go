package examine

import (
	"slices"

	"github.com/calico-probe/calico-probe/probe"
)

// mostPeers is of how many other nodes each probe of a run over many is told blocks and ends of tunnels. Of all of
// them each of n probes would look for n: at 5,000 nodes 25 million, and no pod holds its part of that.
const mostPeers = 64

// thinned leaves out blocks and ends of tunnels where a cluster has those of more than mostPeers other nodes. Every
// n-th stays, counted from the node itself, so that each is looked for by as many nodes as any other.
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
	if len(names) <= mostPeers+1 {
		return targets
	}
	at, _ := slices.BinarySearch(names, node)
	stay := map[string]bool{node: true}
	for i := range mostPeers {
		stay[names[(at+1+i*(len(names)-1)/mostPeers)%len(names)]] = true
	}
	return slices.DeleteFunc(targets, func(t probe.Target) bool { return listed(t) && !stay[t.Node] })
}
