package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// blocks returns the groups to show together. A group with a cause is a block. Groups that have no cause and the same
// nodes are one block, at the place of the first such group.
func blocks(groups []probe.Group) [][]probe.Group {
	var out [][]probe.Group
	for _, g := range groups {
		i := slices.IndexFunc(out, func(of []probe.Group) bool {
			return g.Cause == "" && of[0].Cause == "" && slices.Equal(of[0].Nodes, g.Nodes)
		})
		if i < 0 {
			out = append(out, []probe.Group{g})
			continue
		}
		out[i] = append(out[i], g)
	}
	return out
}

// moreGroups returns the number of omitted blocks, and the nodes that only these blocks contain.
func moreGroups(all [][]probe.Group, from int) string {
	var shown, left []string
	for i, of := range all {
		for _, name := range of[0].Nodes {
			switch {
			case i < from:
				shown = append(shown, name)
			case !slices.Contains(left, name):
				left = append(left, name)
			}
		}
	}
	left = slices.DeleteFunc(left, func(name string) bool { return slices.Contains(shown, name) })
	text := fmt.Sprintf("%s with -o json", plural(len(all)-from, "more finding"))
	if len(left) > 0 {
		text += ", also on " + firstNodes(left)
	}
	return text
}

// title returns the subject of a block: its cause, or the unexplained checks.
func title(of ...probe.Group) string {
	g := of[0]
	if g.Cause == "" {
		var checks []string
		for _, g := range of {
			checks = append(checks, g.Check)
		}
		return "no known cause explains " + strings.Join(checks, ", ")
	}
	name := ""
	if c := g.Example.Cause; c != nil {
		name = cmp.Or(c.Title, c.Says) + "  "
	}
	return fmt.Sprintf("%s[%s, %s]", name, g.Cause, g.Confidence)
}

// answer returns a block as a sentence.
func (f Fleet) answer(of ...probe.Group) string {
	return fmt.Sprintf("%s: %s", place(of[0]), title(of...))
}

// place names the nodes at fault, or counts them.
func place(g probe.Group) string {
	switch {
	case len(g.Between) > 0:
		return "between " + strings.Join(g.Between, " and ")
	case len(g.Nodes) == 1:
		return g.Nodes[0]
	}
	return fmt.Sprintf("%d of %d nodes", len(g.Nodes), g.Of)
}

// at returns place in the form for the middle of a sentence.
func at(g probe.Group) string {
	if len(g.Between) > 0 {
		return place(g)
	}
	return "on " + place(g)
}

// examples returns the bad answers of groups without a cause.
func examples(of []probe.Group) []string {
	var out []string
	for _, g := range of {
		if r := g.Example.Result; r != nil {
			out = append(out, named(*r)+": "+r.Saw)
		}
	}
	return out
}
