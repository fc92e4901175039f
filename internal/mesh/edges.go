// Package mesh chooses the paths between a cluster's nodes, and finds out what the failed paths have in common:
//
//	nodes --> Paths --> (package fleet tries them) --> Around: a second round near failures
//	trials --> PlaneOf, Sessions --> Report --> Write, Page, JSON
//	rounds of 'mesh --watch' --> Board --> rows (package live draws them)
//
// Paths and PlaneOf are its entry points. It does not send packets or read the API.
//
// If there are fewer than fullBelow nodes, it tries every pair in both directions. Otherwise the nodes form a ring, and
// each node tries degree nodes: most in its zone, the rest in the next zones. If a node is disconnected, all of its
// paths fail in both directions, about 2*degree. If there is no connection between two zones, about across*2 paths fail
// for each of their nodes. The ring can miss a single broken pair: with n nodes, it tries degree/(n-1) of the pairs.
// The second round tries paths around the failures of the first round.
package mesh

import (
	"cmp"
	"slices"
)

// Limits for the number of paths to try.
const (
	fullBelow = 60 // if there are fewer nodes than this, every pair is tried
	within    = 3  // number of nodes in the same zone that a node tries in a ring
	across    = 2  // number of nodes in other zones
	degree    = within + across
)

// Node is a node of the cluster, or a BGP peer outside it.
type Node struct {
	Name    string
	Zone    string // "" = none
	Rack    string // "" = none
	Outside bool   // it is outside the cluster, and its name is an address
}

// Path leads from one node to another. Both are indexes into a list of nodes.
type Path struct{ From, To int }

// Paths returns the paths of the first round, in the order of From and To.
func Paths(nodes []Node) []Path {
	var out []Path
	if len(nodes) < fullBelow {
		for from := range nodes {
			for to := range nodes {
				if from != to {
					out = append(out, Path{from, to})
				}
			}
		}
		return out
	}
	ring := zoned(nodes)
	for at, from := range ring {
		for _, to := range next(nodes, ring, at) {
			out = append(out, Path{from, to})
		}
	}
	slices.SortFunc(out, func(a, b Path) int { return cmp.Or(a.From-b.From, a.To-b.To) })
	return out
}

// zoned returns the indexes of all nodes, sorted by zone and name.
func zoned(nodes []Node) []int {
	ring := make([]int, len(nodes))
	for i := range ring {
		ring[i] = i
	}
	slices.SortFunc(ring, func(a, b int) int {
		return cmp.Or(cmp.Compare(nodes[a].Zone, nodes[b].Zone), cmp.Compare(nodes[a].Name, nodes[b].Name))
	})
	return ring
}

// next returns the nodes that the node at this place in the ring tries: the next nodes in its zone, and then, in each
// of the next other zones, one node at the corresponding place.
func next(nodes []Node, ring []int, at int) []int {
	zone := nodes[ring[at]].Zone
	var own, others []int
	first := slices.IndexFunc(ring, func(i int) bool { return nodes[i].Zone == zone })
	for _, i := range ring {
		if nodes[i].Zone == zone {
			own = append(own, i)
		} else {
			others = append(others, i)
		}
	}
	var out []int
	place := at - first
	for step := 1; step <= within && step < len(own); step++ {
		out = append(out, own[(place+step)%len(own)])
	}
	// If a node is alone in its zone, it tries more nodes in other zones. If there are no other zones, it tries more nodes
	// in its own zone.
	for step := within + 1; len(others) == 0 && len(out) < degree && step < len(own); step++ {
		out = append(out, own[(place+step)%len(own)])
	}
	for i := 0; len(others) > 0 && len(out) < degree && i < len(others); i++ {
		to := others[(at+i*(len(others)/across+1))%len(others)]
		if !slices.Contains(out, to) {
			out = append(out, to)
		}
	}
	return out
}

// Around returns the paths of a second round. For each end of a failed path, it adds both directions between that node
// and a few more nodes in each zone, unless they have already been tried.
func Around(nodes []Node, tried map[Path]bool, failed []Path) []Path {
	const perZone = 2
	suspects := map[int]bool{}
	for _, p := range failed {
		suspects[p.From], suspects[p.To] = true, true
	}
	ring := zoned(nodes)
	var out []Path
	added := map[Path]bool{}
	add := func(p Path) bool {
		if p.From == p.To || tried[p] || added[p] {
			return false
		}
		added[p], out = true, append(out, p)
		return true
	}
	for s := range nodes {
		if !suspects[s] {
			continue
		}
		taken := map[string]int{}
		for i := range ring {
			other := ring[(i+s)%len(ring)]
			if suspects[other] || taken[nodes[other].Zone] == perZone {
				continue
			}
			there, back := add(Path{s, other}), add(Path{other, s})
			if there || back {
				taken[nodes[other].Zone]++
			}
		}
	}
	return out
}
