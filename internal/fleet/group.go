package fleet

import (
	"cmp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// mostAbouts bounds how many of the things that a group is about are named.
const mostAbouts = 5

// mostWitnesses bounds how many of the witnesses of a group are named: of a node that is dead that may be all others.
const mostWitnesses = 100

// apart is by how much the share of nodes with an attribute has to be greater in a group than among the others: what
// half of the others have as well sets nobody apart.
const apart = 0.5

// group puts nodes together that have the same cause, or a bad answer to the same check that no cause explains. What
// failed comes before what is unknown and what is a warning, then the larger group, then the surer one.
func group(all []judged) []probe.Group {
	all = slices.SortedStableFunc(slices.Values(all), func(a, b judged) int { return strings.Compare(a.name, b.name) })
	var order []string
	found := map[string]*probe.Group{}
	member := func(key string, n judged) *probe.Group {
		g := found[key]
		if g == nil {
			g = &probe.Group{Of: len(all)}
			found[key], order = g, append(order, key)
		}
		if last := len(g.Nodes) - 1; last < 0 || g.Nodes[last] != n.name { // they come node by node
			g.Nodes = append(g.Nodes, n.name)
		}
		return g
	}
	abouts := map[string]map[string]int{}
	blamed := blame(all)
	proven := proven(all, blamed)
	for _, n := range all {
		for i := range n.causes {
			c := &n.causes[i]
			if of := nodeIn(c.About, blamed); of != "" && of != n.name {
				continue
			}
			key := "cause/" + c.ID
			g := member(key, n)
			if g.Cause == "" || surer(c.Confidence, g.Confidence) {
				g.Cause, g.Confidence, g.Example = c.ID, c.Confidence, probe.Example{Node: n.name, Cause: c}
			}
			if c.About != "" {
				if abouts[key] == nil {
					abouts[key] = map[string]int{}
				}
				abouts[key][c.About]++
			}
		}
		for _, r := range n.unexplained(n.lost(blamed), proven) {
			g := member("check/"+r.Check, n)
			if g.Check == "" {
				g.Check, g.Example = r.Check, probe.Example{Node: n.name, Result: &r}
			}
		}
	}
	bearWitness(all, blamed, proven, found)
	out := make([]probe.Group, 0, len(order))
	for _, key := range order {
		found[key].Abouts, found[key].Common = frequent(abouts[key]), common(all, found[key].Nodes)
		out = append(out, *found[key])
	}
	slices.SortStableFunc(out, func(a, b probe.Group) int {
		return cmp.Or(badness(a)-badness(b), guess(a)-guess(b), cmp.Compare(len(b.Nodes), len(a.Nodes)),
			rank(a.Confidence)-rank(b.Confidence))
	})
	return newNodesFirst(out)
}

// guess is 1 for a cause of low confidence, which never leads a report that has a surer one.
func guess(g probe.Group) int {
	if g.Confidence == probe.Low {
		return 1
	}
	return 0
}

// newNodesFirst puts groups whose nodes are all in earlier ones behind the others that are as bad: a report shows a few
// groups, and one node with many causes must not hide another node's only one.
func newNodesFirst(groups []probe.Group) []probe.Group {
	seen, again := map[string]bool{}, map[int]bool{}
	for i, g := range groups {
		again[i] = true
		for _, name := range g.Nodes {
			again[i] = again[i] && seen[name]
			seen[name] = true
		}
	}
	var out []probe.Group
	for from := 0; from < len(groups); {
		to := from
		for to < len(groups) && badness(groups[to]) == badness(groups[from]) {
			to++
		}
		for _, second := range []bool{false, true} {
			for i := from; i < to; i++ {
				if again[i] == second {
					out = append(out, groups[i])
				}
			}
		}
		from = to
	}
	return out
}

// bearWitness gives groups their witnesses: nodes whose causes or unexplained answers follow from a node of them. It
// also lists the witnesses that are in no group: the cap on witnesses would hide how many there are.
func bearWitness(all []judged, blamed map[string]blamed, proven map[string]bool, found map[string]*probe.Group) {
	witness := func(of string, w probe.Witness) {
		if g := found["cause/"+blamed[of].cause]; len(g.Witnesses) < mostWitnesses {
			g.Witnesses = append(g.Witnesses, w)
		} else {
			g.MoreWitnesses++
		}
	}
	grouped := map[string]bool{}
	for _, g := range found {
		for _, name := range g.Nodes {
			grouped[name] = true
		}
	}
	for _, n := range all {
		first := ""
		for _, c := range n.causes {
			if of := nodeIn(c.About, blamed); of != "" && of != n.name {
				first = cmp.Or(first, of)
				witness(of, probe.Witness{Node: n.name, Cause: c.ID, About: c.About})
			}
		}
		told, lost := map[string]bool{}, n.lost(blamed)
		for _, r := range n.bad {
			if of := n.followsFrom(r, lost, proven); of != "" && !told[of+" "+r.Check] {
				told[of+" "+r.Check] = true
				first = cmp.Or(first, of)
				witness(of, probe.Witness{Node: n.name, Check: r.Check, About: of})
			}
		}
		if first != "" && !grouped[n.name] {
			g := found["cause/"+blamed[first].cause]
			if g.Affected == nil {
				g.Affected = map[string][]string{}
			}
			g.Affected[first] = append(g.Affected[first], n.name)
		}
	}
}

// A blamed node has a cause of its own: what others find wrong with that node follows from it.
type blamed struct {
	cause      string // the ID of the first
	confidence probe.Confidence
}

// blame finds the nodes that have a cause which is not about another node.
func blame(all []judged) map[string]blamed {
	names, out := map[string]bool{}, map[string]blamed{}
	for _, n := range all {
		names[n.name] = true
	}
	for _, n := range all {
		own := slices.IndexFunc(n.causes, func(c probe.Cause) bool {
			of := nodeIn(c.About, names)
			return of == "" || of == n.name
		})
		if own >= 0 {
			out[n.name] = blamed{n.causes[own].ID, n.causes[own].Confidence}
		}
	}
	return out
}

// proven are the blamed nodes that two other nodes find lost; of a run with one other node, by two of its checks. A
// node can make a fault and drop the packets of one other node, and would hide what is wrong with a service there.
func proven(all []judged, blamed map[string]blamed) map[string]bool {
	by := map[string]map[string]bool{}
	for _, n := range all {
		lost := n.lost(blamed)
		for _, r := range n.bad {
			peer, witness := r.Facts.Str(probe.FactNode), n.name
			if len(all) == 2 {
				witness = r.Check
			}
			if slices.Contains(lost, peer) {
				if by[peer] == nil {
					by[peer] = map[string]bool{}
				}
				by[peer][witness] = true
			}
		}
	}
	out := map[string]bool{}
	for peer, witnesses := range by {
		out[peer] = len(witnesses) >= 2
	}
	return out
}

// nodeIn is the node that a cause is about, as "NODE" or "NODE ADDRESS", where it is one of some; "" = none of them.
func nodeIn[T any](about string, nodes map[string]T) string {
	name, _, _ := strings.Cut(about, " ")
	if _, is := nodes[name]; is {
		return name
	}
	return ""
}

// badness is the place of the worst answer that a group rests on, among fail, unknown and warn.
func badness(g probe.Group) int {
	worst := len(probe.Statuses())
	take := func(s probe.Status) { worst = min(worst, slices.Index(probe.Statuses(), s)) }
	if g.Example.Result != nil {
		take(g.Example.Result.Status)
	}
	if g.Example.Cause != nil {
		for _, clue := range g.Example.Cause.For {
			take(clue.Status)
		}
	}
	return worst
}

// rank is the place of a confidence among all, the surest first; none comes last.
func rank(c probe.Confidence) int {
	if i := slices.Index(probe.Confidences(), c); i >= 0 {
		return i
	}
	return len(probe.Confidences())
}

func surer(a, b probe.Confidence) bool { return rank(a) < rank(b) }

// frequent are the keys that were counted most, some of them.
func frequent(counts map[string]int) []string {
	var out []string
	for key := range counts {
		out = append(out, key)
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	return out[:min(len(out), mostAbouts)]
}

// common is the attribute that sets some nodes apart from all others the most, nil where none does. Two nodes and
// more are needed: one node differs from others in everything.
func common(all []judged, names []string) *probe.Common {
	others := len(all) - len(names)
	if len(names) < 2 || others == 0 {
		return nil
	}
	type count struct{ has, others int }
	counts := map[string]*count{}
	for _, n := range all {
		_, in := slices.BinarySearch(names, n.name)
		for _, a := range n.attributes {
			c := counts[a]
			if c == nil {
				c = &count{}
				counts[a] = c
			}
			if in {
				c.has++
			} else {
				c.others++
			}
		}
	}
	var best *probe.Common
	most, first := 0.0, ""
	for a, c := range counts {
		by := float64(c.has)/float64(len(names)) - float64(c.others)/float64(others)
		if c.has < 2 || by < apart || best != nil && (by < most || by == most && firstAttribute(first, a) < 0) {
			continue
		}
		most, first = by, a
		name, value, _ := strings.Cut(a, "=")
		best = &probe.Common{Attribute: name, Value: value, Has: c.has, Others: c.others, OthersOf: others}
	}
	return best
}
