package fleet

import (
	"cmp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
	"github.com/calico-probe/calico-probe/probe"
)

// maxAbouts is the maximum number of a group's subjects to name.
const maxAbouts = 5

// maxWitnesses is the maximum number of a group's witnesses to name. All other nodes may be witnesses of a dead node.
const maxWitnesses = 100

// apart is the minimum difference between an attribute's share in a group and its share among the other nodes. An
// attribute that half of the other nodes have does not distinguish a group.
const apart = 0.5

// group groups nodes with the same cause, or with the same failed check that no cause explains. Proven causes come
// first, then fail, unknown and warn. Within each severity, the larger group comes first, then the higher confidence.
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
		if last := len(g.Nodes) - 1; last < 0 || g.Nodes[last] != n.name { // all causes of a node arrive together
			g.Nodes = append(g.Nodes, n.name)
		}
		return g
	}
	abouts := map[string]map[string]int{}
	folded := fold(all)
	for _, n := range all {
		for i := range n.causes {
			c := &n.causes[i]
			if folded.into[n.name][i] != "" {
				continue
			}
			key := "cause/" + c.ID
			g := member(key, n)
			first := g.Cause == "" || surer(c.Confidence, g.Confidence)
			if first || c.Confidence == g.Confidence && showsRule(*c) && !showsRule(*g.Example.Cause) {
				g.Cause, g.Confidence, g.Example = c.ID, c.Confidence, probe.Example{Node: n.name, Cause: c}
			}
			if c.About != "" {
				if abouts[key] == nil {
					abouts[key] = map[string]int{}
				}
				abouts[key][c.About]++
			}
		}
		for _, r := range n.unexplained(n.lost(folded.blamed), folded.proven) {
			g := member("check/"+r.Check, n)
			if g.Check == "" {
				g.Check, g.Example = r.Check, probe.Example{Node: n.name, Result: &r}
			}
		}
	}
	for key, g := range found {
		g.Abouts, g.Common = frequent(abouts[key]), common(all, g.Nodes)
		g.Between = folded.between(g)
	}
	bearWitness(folded, found)
	out := make([]probe.Group, 0, len(order))
	for _, key := range order {
		out = append(out, *found[key])
	}
	slices.SortStableFunc(out, func(a, b probe.Group) int {
		return cmp.Or(place(a)-place(b), guess(a)-guess(b), cmp.Compare(len(b.Nodes), len(a.Nodes)),
			rank(a.Confidence)-rank(b.Confidence))
	})
	return newNodesFirst(out)
}

// grouped groups nodes. It returns a panic as an error.
func grouped(all []judged) (groups []probe.Group, err error) {
	err = probe.Recovered(func() error {
		groups = group(all)
		return nil
	})
	return groups, err
}

// place returns a group's place in the order. A proven cause of a current fault comes first. The rest is sorted by the
// worst result in the evidence. A cause that only prevents probes from running shows little about the nodes, and comes
// after faults.
func place(g probe.Group) int {
	switch rule := cause.All().Rule(g.Cause); {
	case g.Confidence != probe.High || rule != nil && rule.Later:
		return badness(g)
	case rule != nil && rule.Layer == diagnose.LayerPlacement:
		return max(badness(g), 1)
	}
	return -1
}

// guess returns 1 for a cause with low confidence. In a report such a cause never precedes a cause with higher
// confidence.
func guess(g probe.Group) int {
	if g.Confidence == probe.Low {
		return 1
	}
	return 0
}

// newNodesFirst moves a group after other groups of the same severity if all of its nodes are in earlier groups. A
// report shows only a few groups, and one node with many causes must not hide another node's only cause.
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
		for to < len(groups) && place(groups[to]) == place(groups[from]) {
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

// bearWitness adds witnesses to groups. A witness is a node with causes or unexplained results that follow from a node
// in the group. It also lists the witnesses without a group, because the limit on named witnesses would hide their
// number.
func bearWitness(f *folding, found map[string]*probe.Group) {
	witness := func(of string, w probe.Witness) {
		if g := found["cause/"+f.blamed[of].cause]; len(g.Witnesses) < maxWitnesses {
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
	for _, n := range f.all {
		first := ""
		for i, c := range n.causes {
			if of := f.into[n.name][i]; of != "" {
				first = cmp.Or(first, of)
				witness(of, probe.Witness{Node: n.name, Cause: c.ID, About: cmp.Or(c.About, of)})
			}
		}
		seen, lost := map[string]bool{}, n.lost(f.blamed)
		for _, r := range n.bad {
			if !slices.Contains(n.verdict.Unexplained, r.Check) {
				continue
			}
			if of := n.followsFrom(r, lost, f.proven); of != "" && !seen[of+" "+r.Check] {
				seen[of+" "+r.Check] = true
				first = cmp.Or(first, of)
				witness(of, probe.Witness{Node: n.name, Check: r.Check, About: of})
			}
		}
		if first == "" || grouped[n.name] {
			continue
		}
		if g := found["cause/"+f.blamed[first].cause]; !slices.Contains(g.Between, n.name) { // either end may be the culprit
			if g.Affected == nil {
				g.Affected = map[string][]string{}
			}
			g.Affected[first] = append(g.Affected[first], n.name)
		}
	}
}

// badness returns the rank of a group's worst result in the evidence: fail, unknown or warn.
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

// frequent returns the most frequent keys, at most a few.
func frequent(counts map[string]int) []string {
	var out []string
	for key := range counts {
		out = append(out, key)
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	return out[:min(len(out), maxAbouts)]
}

// common returns the attribute that best separates the named nodes from all other nodes, or nil if there is none. It
// needs at least two nodes, because a single node can differ from other nodes in every attribute.
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
