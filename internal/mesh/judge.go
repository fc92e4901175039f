package mesh

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Finding is what failed paths have in common.
type Finding struct {
	Plane     string   `json:"plane"`           // plane of the paths
	Kind      string   `json:"kind"`            // one of kinds
	Names     []string `json:"names"`           // node, peer or zone; rack and its zone; both ends; all: none
	Direction string   `json:"way,omitempty"`   // in or out, if only paths in this direction fail
	Failed    int      `json:"failed"`          // number of its paths that fail
	Of        int      `json:"of"`              // number of its paths that were tried
	Paths     []Ends   `json:"paths,omitempty"` // failed paths that are not in an earlier finding
}

// Ends are the names of both ends of a path.
type Ends struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// named returns the names of both ends of paths.
func named(nodes []Node, paths []Path) []Ends {
	var out []Ends
	for _, p := range paths {
		out = append(out, Ends{nodes[p.From].Name, nodes[p.To].Name})
	}
	return out
}

// The kinds of Finding. If two findings explain the same paths, the one whose kind is first in this list is reported.
const (
	KindNode  = "node"  // no path to or from the node works
	kindPeer  = "peer"  // the same for a BGP peer outside the cluster
	kindRack  = "rack"  // no path into or out of the rack works
	kindZone  = "zone"  // no path into or out of the zone works
	kindZones = "zones" // no path between the zones works
	kindAll   = "all"   // no path works
	KindPair  = "pair"  // one path fails, in one or both directions
)

var kinds = []string{KindNode, kindPeer, kindRack, kindZone, kindZones, kindAll, KindPair}

// The values of Finding.Way.
const (
	directionIn  = "in"
	directionOut = "out" // for zones: from the first to the second
)

// minFailed is the minimum share of a suspect's paths that must fail. Below it, something else is probably the cause.
const minFailed = 0.8

// group names a set of paths that may share a cause.
type group struct{ kind, direction, a, b string }

// groupsOf returns the groups of a path.
func groupsOf(nodes []Node, p Path) []group {
	from, to := nodes[p.From], nodes[p.To]
	out := []group{{kind: kindAll}}
	for i, n := range [2]Node{from, to} {
		kind, direction := KindNode, [2]string{directionOut, directionIn}[i]
		if n.Outside {
			kind = kindPeer
		}
		out = append(out, group{kind, "", n.Name, ""}, group{kind, direction, n.Name, ""})
		if n.Rack != "" && (from.Zone != to.Zone || from.Rack != to.Rack) {
			out = append(out, group{kindRack, "", n.Rack, n.Zone}, group{kindRack, direction, n.Rack, n.Zone})
		}
		if n.Zone != "" && from.Zone != to.Zone {
			out = append(out, group{kindZone, "", n.Zone, ""}, group{kindZone, direction, n.Zone, ""})
		}
	}
	if from.Zone != "" && to.Zone != "" && from.Zone != to.Zone {
		out = append(out, group{kindZones, "", min(from.Zone, to.Zone), max(from.Zone, to.Zone)},
			group{kindZones, directionOut, from.Zone, to.Zone})
	}
	return out
}

// suspect is a group with its paths.
type suspect struct {
	group
	failed []Path // tried and failed
	of     int    // number of tried paths
	left   int    // number of failed paths that no finding explains yet
}

// judge finds out what the failed paths have in common. It repeatedly takes the suspect that explains the most failed
// paths. If two suspects are equal, it takes the smaller one. Each path is explained once. failed has an entry for each
// path that was tried.
func judge(plane string, nodes []Node, failed map[Path]bool) []Finding {
	open := map[Path]bool{}
	for p, bad := range failed {
		if bad {
			open[p] = true
		}
	}
	suspects, of := suspectsOf(nodes, failed, open)
	var out []Finding
	for len(open) > 0 {
		var best *suspect
		for _, s := range suspects {
			if s.left > 0 && (best == nil || better(s, best)) && s.fits(open) {
				best = s
			}
		}
		if best == nil {
			break
		}
		f, paths := best.finding(open)
		for _, p := range paths {
			delete(open, p)
			for _, s := range of[p] {
				s.left--
			}
		}
		f.Paths = named(nodes, paths)
		out = append(out, f)
	}
	out = append(out, pairs(nodes, failed, open)...)
	for i := range out {
		out[i].Plane = plane
	}
	return out
}

// better prefers the group that explains more failed paths, then the one with fewer paths.
func better(a, b *suspect) bool {
	kind := func(s *suspect) int { return slices.Index(kinds, s.kind) }
	return cmp.Or(b.left-a.left, a.of-b.of, kind(a)-kind(b), strings.Compare(a.direction, b.direction),
		strings.Compare(a.a, b.a),
		strings.Compare(a.b, b.b)) < 0
}

// suspectsOf returns the groups with at least one failed path, and the groups of each failed path.
func suspectsOf(nodes []Node, tried, failing map[Path]bool) (all []*suspect, of map[Path][]*suspect) {
	named := map[group]*suspect{}
	of = map[Path][]*suspect{}
	for p := range failing {
		for _, g := range groupsOf(nodes, p) {
			s := named[g]
			if s == nil {
				s = &suspect{group: g}
				named[g] = s
				all = append(all, s)
			}
			s.failed = append(s.failed, p)
			s.left++
			of[p] = append(of[p], s)
		}
	}
	for p := range tried {
		for _, g := range groupsOf(nodes, p) {
			if s := named[g]; s != nil {
				s.of++
			}
		}
	}
	return all, of
}

// fits reports whether a suspect explains its paths. It returns false if too many of these paths work, or if one pair
// or one node explains as much.
func (s *suspect) fits(open map[Path]bool) bool {
	if float64(len(s.failed)) < minFailed*float64(s.of) || s.kind == kindAll && len(s.failed) < s.of {
		return false
	}
	least := 3 // minimum number of ends among the unexplained paths
	if slices.Contains([]string{kindRack, kindZone, kindZones}, s.kind) {
		least = 4
	}
	ends := map[int]bool{}
	for _, p := range s.failed {
		if open[p] {
			ends[p.From], ends[p.To] = true, true
			if len(ends) >= least {
				return true
			}
		}
	}
	return false
}

// finding turns a suspect into a finding, and returns those of its paths that were not yet explained.
func (s *suspect) finding(open map[Path]bool) (f Finding, paths []Path) {
	f = Finding{Kind: s.kind, Names: []string{}, Direction: s.direction, Failed: len(s.failed), Of: s.of}
	for _, name := range []string{s.a, s.b} {
		if name != "" {
			f.Names = append(f.Names, name)
		}
	}
	for _, p := range s.failed {
		if open[p] {
			paths = append(paths, p)
		}
	}
	slices.SortFunc(paths, byPlace)
	return f, paths
}

func byPlace(a, b Path) int { return cmp.Or(a.From-b.From, a.To-b.To) }

// pairs returns the failed paths that have nothing in common. Both directions of a pair are one finding.
func pairs(nodes []Node, tried, open map[Path]bool) []Finding {
	var out []Finding
	for p := range open {
		back := Path{p.To, p.From}
		if open[back] && p.From > p.To {
			continue // reported with the other direction
		}
		paths := []Path{p}
		f := Finding{Kind: KindPair, Names: []string{nodes[p.From].Name, nodes[p.To].Name}, Of: 1}
		if _, both := tried[back]; both {
			f.Of = 2
		}
		if open[back] {
			paths = append(paths, back)
		}
		f.Failed, f.Paths = len(paths), named(nodes, paths)
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Finding) int { return slices.Compare(a.Names, b.Names) })
	return out
}

// Says formats a finding as a sentence.
func (f Finding) Says() string { return f.where() + ": " + f.counts() }

// place returns an ID for a finding's subject. It is the same in each plane and each direction.
func (f Finding) place() string { return strings.Join(append([]string{f.Kind}, f.Names...), "\x00") }

// where returns the place in words.
func (f Finding) where() string {
	switch {
	case f.Kind == kindAll:
		return "everywhere"
	case f.Kind == kindRack && len(f.Names) > 1:
		return fmt.Sprintf("rack %s of zone %s", f.Names[0], f.Names[1])
	case f.Kind == kindZones && f.Direction != "":
		return fmt.Sprintf("from zone %s to zone %s", f.Names[0], f.Names[1])
	case f.Kind == kindZones:
		return fmt.Sprintf("zones %s and %s", f.Names[0], f.Names[1])
	case f.Kind == KindPair && f.Failed > 1:
		return fmt.Sprintf("between %s and %s", f.Names[0], f.Names[1])
	case f.Kind == KindPair:
		return fmt.Sprintf("from %s to %s", f.Names[0], f.Names[1])
	}
	return f.Kind + " " + f.Names[0]
}

// counts returns, in words, how many of the finding's paths fail.
func (f Finding) counts() string {
	what, how, which := "paths", "fail", ""
	if f.Plane == PlaneBGP {
		what, how = "sessions", "are down"
	}
	switch f.Kind {
	case KindNode, kindPeer:
		which = map[string]string{"": "that begin or end there ", directionIn: "that end there ",
			directionOut: "that begin there "}[f.Direction]
	case kindRack, kindZone:
		which = map[string]string{"": "into or out of it ", directionIn: "into it ", directionOut: "out of it "}[f.Direction]
	case kindZones:
		if f.Direction == "" {
			which = "between them "
		}
	}
	return fmt.Sprintf("%d of %d %s %s%s", f.Failed, f.Of, what, which, how)
}
