package mesh

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Finding is what paths that fail have in common.
type Finding struct {
	Kind   string   `json:"kind"`            // node, zone, zones or pair
	Names  []string `json:"names"`           // the node; the zone; the two zones; the two ends of the path
	Failed int      `json:"failed"`          // how many of its paths fail
	Of     int      `json:"of"`              // how many of its paths were tried
	Paths  []Path   `json:"paths,omitempty"` // those that fail
}

// The kinds of Finding.
const (
	KindNode  = "node"  // no path to or from it
	KindZone  = "zone"  // no path into or out of it
	KindZones = "zones" // no path between them
	KindPair  = "pair"  // one path, in one or both directions
)

// Of all paths of a suspect so many have to fail, or something else is the reason.
const most = 0.8

// suspect is a set of paths that may have a reason in common.
type suspect struct {
	Finding
	has func(Path) bool
}

// judge says what the paths that fail have in common: first what accounts for the most of them, of two that account
// for as many the smaller one. Each path is accounted for once. failed tells of each path that was tried.
func judge(nodes []Node, failed map[Path]bool) []Finding {
	open := map[Path]bool{}
	for p, bad := range failed {
		if bad {
			open[p] = true
		}
	}
	suspects := suspectsOf(nodes, open)
	var out []Finding
	for len(open) > 0 {
		best, found := Finding{}, false
		for _, s := range suspects {
			if f, fits := s.weigh(failed, open); fits && (!found || better(f, best)) {
				best, found = f, true
			}
		}
		if !found {
			break
		}
		for _, p := range best.Paths {
			delete(open, p)
		}
		out = append(out, best)
	}
	return append(out, pairs(nodes, failed, open)...)
}

// better prefers what accounts for more paths that fail, and then what has fewer paths.
func better(a, b Finding) bool {
	return cmp.Or(len(a.Paths)-len(b.Paths), b.Of-a.Of, strings.Compare(b.Kind, a.Kind),
		slices.Compare(b.Names, a.Names)) > 0
}

// suspectsOf are those that any of the failing paths touches.
func suspectsOf(nodes []Node, failing map[Path]bool) []suspect {
	var out []suspect
	seen := map[string]bool{}
	add := func(kind string, has func(Path) bool, names ...string) {
		if key := kind + strings.Join(names, "\x00"); !seen[key] {
			seen[key] = true
			out = append(out, suspect{Finding{Kind: kind, Names: names}, has})
		}
	}
	zone := func(i int) string { return nodes[i].Zone }
	for p := range failing {
		for _, i := range []int{p.From, p.To} {
			add(KindNode, func(o Path) bool { return o.From == i || o.To == i }, nodes[i].Name)
			z := zone(i)
			add(KindZone, func(o Path) bool { return zone(o.From) != zone(o.To) && (zone(o.From) == z || zone(o.To) == z) }, z)
		}
		a, b := min(zone(p.From), zone(p.To)), max(zone(p.From), zone(p.To))
		if a != b {
			add(KindZones, func(o Path) bool {
				return zone(o.From) == a && zone(o.To) == b || zone(o.From) == b && zone(o.To) == a
			}, a, b)
		}
	}
	return out
}

// weigh counts a suspect's paths; fits is false where too many of them work, or one pair alone says all of it.
func (s suspect) weigh(tried, open map[Path]bool) (f Finding, fits bool) {
	f = s.Finding
	ends := map[int]int{}
	for p, bad := range tried {
		if !s.has(p) {
			continue
		}
		f.Of++
		if bad {
			f.Failed++
		}
		if open[p] {
			f.Paths = append(f.Paths, p)
			ends[p.From]++
			ends[p.To]++
		}
	}
	slices.SortFunc(f.Paths, func(a, b Path) int { return cmp.Or(a.From-b.From, a.To-b.To) })
	few := len(ends) < 3 // one pair, in one direction or both
	if s.Kind != KindNode {
		few = len(ends) < 4 // else one node of them says as much
	}
	return f, !few && len(f.Paths) > 0 && float64(f.Failed) >= most*float64(f.Of)
}

// pairs are the failing paths that have nothing in common, both directions of a pair as one.
func pairs(nodes []Node, tried, open map[Path]bool) []Finding {
	var out []Finding
	for p := range open {
		back := Path{p.To, p.From}
		if open[back] && p.From > p.To {
			continue // it is told with the other direction
		}
		f := Finding{Kind: KindPair, Names: []string{nodes[p.From].Name, nodes[p.To].Name}, Failed: 1, Of: 1,
			Paths: []Path{p}}
		if _, both := tried[back]; both {
			f.Of = 2
		}
		if open[back] {
			f.Failed, f.Paths = 2, append(f.Paths, back)
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Finding) int { return slices.Compare(a.Names, b.Names) })
	return out
}

// Says is a finding as a sentence.
func (f Finding) Says() string {
	paths := fmt.Sprintf("%d of %d paths fail", f.Failed, f.Of)
	switch f.Kind {
	case KindNode:
		return fmt.Sprintf("node %s: %s that begin or end there", f.Names[0], paths)
	case KindZone:
		return fmt.Sprintf("zone %s: %s into or out of it", f.Names[0], paths)
	case KindZones:
		return fmt.Sprintf("zones %s and %s: %s between them", f.Names[0], f.Names[1], paths)
	}
	return fmt.Sprintf("from %s to %s: %s", f.Names[0], f.Names[1], paths)
}
