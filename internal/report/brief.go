package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// Brief returns a run in plain, unwrapped lines: the most likely causes with evidence and fix, then the bad results,
// worst first. For a healthy run it returns no lines.
func (d Document) Brief() []string {
	var out []string
	for i, c := range d.Causes {
		if i == shownCauses {
			out = append(out, fmt.Sprintf("%d more causes", len(d.Causes)-i))
			break
		}
		out = append(out, briefCause(fmt.Sprintf("cause %d: %s", i+1, strings.TrimSpace(c.ID+" "+c.About)), c)...)
	}
	if len(d.Unexplained) > 0 {
		out = append(out, "unexplained: "+printable(strings.Join(d.Unexplained, ", ")))
	}
	return append(out, briefResults(d.own())...)
}

// briefCause returns the lines about a cause, below a heading.
func briefCause(head string, c probe.Cause) []string {
	out := append([]string{printable(head)}, causeLines(c, 0)...)
	return append(out, briefCommands(c.Fix)...)
}

// briefCommands returns the commands of a fix, below their conditions.
func briefCommands(fix probe.Fix) []string {
	var out []string
	for _, block := range fix.Blocks() {
		if block.If != "" {
			out = append(out, "only if   "+printable(block.If))
		}
		for _, command := range block.Commands {
			out = append(out, "  "+printable(command))
		}
	}
	return out
}

// briefResults returns the bad answers, worst first.
func briefResults(all []Located) []string {
	var out []string
	for _, s := range probe.Statuses() {
		for _, r := range all {
			if r.Status == s && !quiet(s) {
				out = append(out, fmt.Sprintf("%s %s: %s", s, r.named(), printable(r.Saw)))
			}
		}
	}
	return out
}

// Brief returns a run over several nodes in plain, unwrapped lines: the groups, each with one example.
func (f Fleet) Brief() []string {
	var out []string
	for i, g := range f.Groups {
		if i == shownGroups {
			out = append(out, fmt.Sprintf("%d more groups", len(f.Groups)-i))
			break
		}
		out = append(out, printable(fmt.Sprintf("%d of %d nodes: %s", len(g.Nodes), g.Of, title(g))))
		out = append(out, groupLines(g, 0)...)
		if c := g.Example.Cause; c != nil {
			out = append(out, briefCommands(c.Fix)...)
		}
	}
	return out
}

// Limits for Shortened, which limits the size of a report for a language model or an alert.
const (
	shortResults = 20
	shortClues   = 5
	shortNodes   = 20
)

// Shortened returns the document with only its most important parts: the most likely causes, and the bad answers about
// the node without their evidence.
func (d Document) Shortened() Document {
	d.Causes = shortCauses(d.Causes)
	d.Results = shortLocated(d.own())
	d.Contrast, d.Log = d.Contrast[:min(len(d.Contrast), shortClues)], d.Log[:min(len(d.Log), shortClues)]
	return d
}

// Shortened returns the fleet with only its largest groups and some of the unhealthy nodes.
func (f Fleet) Shortened() Fleet {
	f.Groups = slices.Clone(f.Groups[:min(len(f.Groups), shownGroups)])
	for i, g := range f.Groups {
		f.Groups[i].Nodes = g.Nodes[:min(len(g.Nodes), shortNodes)]
		f.Groups[i].Witnesses = g.Witnesses[:min(len(g.Witnesses), shortNodes)]
		f.Groups[i].Affected = nil // it may name every other node
		if c := g.Example.Cause; c != nil {
			f.Groups[i].Example.Cause = &shortCauses([]probe.Cause{*c})[0]
		}
	}
	all := f.Nodes
	f.Nodes = []FleetNode{}
	for _, n := range all {
		if n.Word == WordHealthy || len(f.Nodes) == shortNodes {
			continue
		}
		n.Causes = []probe.Cause{} // the groups list the causes
		n.Results = shortLocated(n.Results[:min(len(n.Results), shortClues)])
		f.Nodes = append(f.Nodes, n)
	}
	f.Log = f.Log[:min(len(f.Log), shortClues)]
	return f
}

func shortCauses(all []probe.Cause) []probe.Cause {
	out := slices.Clone(all[:min(len(all), shownCauses)])
	for i, c := range out {
		out[i].For, out[i].Against = c.For[:min(len(c.For), shortClues)], c.Against[:min(len(c.Against), shortClues)]
	}
	return out
}

func shortLocated(all []Located) []Located {
	out := []Located{}
	for _, s := range probe.Statuses() {
		for _, r := range all {
			if r.Status == s && !quiet(s) && len(out) < shortResults {
				r.Lines, r.Facts, r.Cut = nil, nil, true
				out = append(out, r)
			}
		}
	}
	return out
}
