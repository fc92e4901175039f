package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/probe"
)

// Limits for what a fleet's page shows, except for the list of nodes, which is complete.
const (
	pageGroups = 20
	pageNames  = 100 // names of a group's nodes
	pageSeen   = 12  // answers of a node
)

// writeFleetHTML writes a run over several nodes as a page.
func writeFleetHTML(w io.Writer, f Fleet) error { return page.Write(w, f.page()) }

func (f Fleet) page() page.Page {
	p := page.Page{Kind: "report of a fleet", Subject: plural(len(f.Nodes), "node"),
		Verdict: page.Verdict{Word: f.Word, Says: f.says()},
		Facts:   about(f.Cluster, f.Time, f.Elapsed, strings.Join(f.methods(), ", ")),
		Notes:   f.notes(), Foot: fmt.Sprintf("calico-probe %s, run %s", f.Version, f.Run)}
	affected := f.affected()
	p.Verdict.Counts = f.counts(affected)
	for _, g := range f.Groups[:min(len(f.Groups), pageGroups)] {
		p.Causes = append(p.Causes, groupPage(g))
	}
	for _, n := range f.Nodes {
		p.Nodes = append(p.Nodes, n.page(affected))
	}
	page.Ordered(p.Nodes)
	if len(f.Groups) > pageGroups {
		t := &page.Table{Head: []string{"nodes", "what", "for example"}}
		for _, g := range f.Groups[pageGroups:] {
			t.Rows = append(t.Rows, page.Row{Word: groupWord(g),
				Cells: page.Texts(fmt.Sprintf("%d of %d", len(g.Nodes), g.Of), title(g), g.Example.Node)})
		}
		p.Parts = append(p.Parts, page.Part{Title: "More groups", Folded: true, Table: t})
	}
	if down := f.sessionsDown(); len(down.Sessions) > 0 {
		p.Parts = append(p.Parts, page.Part{Title: "BGP sessions that are down",
			Note: "A report on several nodes does not include sessions that are up.", Topology: down})
	}
	if len(f.Nodes) > 0 {
		p.Parts = append(p.Parts, page.Part{Title: "The slowest nodes", Folded: true, Timeline: f.slowest(affected)})
	}
	return p
}

// says returns the verdict in one sentence, or "" if there is no group.
func (f Fleet) says() string {
	if len(f.Groups) == 0 {
		return ""
	}
	return at(f.Groups[0]) + ": " + strings.TrimSuffix(f.leads(), "; ")
}

// notes returns why the run did not finish, and the number of nodes without a probe.
func (f Fleet) notes() []string {
	out := slices.Clone(f.Log)
	switch alone := f.unasked(); alone {
	case 0:
	case len(f.Nodes):
		out = append(out, "Only the API was checked, not the nodes.")
	default:
		out = append(out, fmt.Sprintf("Probes ran on %d nodes; the other %d nodes were checked through the API only.",
			len(f.Nodes)-alone, alone))
	}
	return out
}

func groupWord(g probe.Group) string {
	if g.Example.Result != nil {
		return string(g.Example.Result.Status)
	}
	return string(confidenceStatus(g.Confidence))
}

// groupPage returns a group with its example.
func groupPage(g probe.Group) page.Cause {
	out := page.Cause{}
	if g.Example.Cause != nil {
		out = CausePage(*g.Example.Cause)
	}
	if r := g.Example.Result; r != nil {
		out.Evidence = []page.Seen{{Word: string(r.Status), What: named(*r), Saw: r.Saw}}
	}
	out.Name, out.Word, out.Confidence = cmp.Or(out.Name, title(g)), groupWord(g), string(g.Confidence)
	out.ID = g.Cause
	out.Share = fmt.Sprintf("%d of %s", len(g.Nodes), plural(g.Of, "node"))
	names := strings.Join(g.Nodes[:min(len(g.Nodes), pageNames)], ", ")
	if n := len(g.Nodes) - pageNames; n > 0 {
		names += fmt.Sprintf(" and %d more", n)
	}
	fact := func(name, value string) { out.Facts = append(out.Facts, page.Fact{Name: name, Value: value}) }
	if c := g.Common; c != nil {
		fact("common", fmt.Sprintf("%s %s: %d of these %d, and %d of the other %d", c.Attribute, c.Value, c.Has,
			len(g.Nodes), c.Others, c.OthersOf))
	}
	if len(g.Nodes) > shownNodes { // a long list must not hide the rest
		out.More = append([]page.Fact{{Name: "nodes", Value: names}}, out.More...)
		fact("nodes", strings.Join(g.Nodes[:shownNodes], ", ")+fmt.Sprintf(" and %d more", len(g.Nodes)-shownNodes))
	} else {
		fact("nodes", names)
	}
	if len(g.Abouts) > 0 && len(g.Nodes) > 1 {
		fact("about", strings.Join(g.Abouts, ", "))
	}
	if len(g.Witnesses) > 0 {
		fact("seen by", witnesses(g))
	}
	if len(g.Nodes) > 1 {
		fact("example", g.Example.Node)
	}
	return out
}

// page returns a node's entry in a page about several nodes.
func (n FleetNode) page(affected map[string]string) page.Node {
	out := page.Node{Name: n.Node, Zone: n.Zone, Word: n.word(affected)}
	var says []string
	for _, c := range n.Causes {
		says = append(says, fmt.Sprintf("%s (%s)", causeName(c), c.Confidence))
	}
	if len(n.Unexplained) > 0 && (len(says) == 0 || affected[n.Node] != "") {
		says = []string{n.unexplained(affected)}
	}
	out.Says = strings.Join(says, "; ")
	results := slices.SortedStableFunc(slices.Values(n.Results), func(a, b Located) int {
		return cmp.Compare(urgency(a.Status), urgency(b.Status))
	})
	for _, r := range results[:min(len(results), pageSeen)] {
		out.Seen = append(out.Seen, page.Seen{Word: string(r.Status), What: r.named(), Saw: r.Saw})
	}
	if left := len(results) - pageSeen; left > 0 {
		out.Seen = append(out.Seen, page.Seen{What: "and", Saw: plural(left, "more answer") + " with -o json"})
	}
	return out
}

// sessionsDown returns all nodes' sessions that are down.
func (f Fleet) sessionsDown() *page.Topology {
	t := &page.Topology{}
	for _, n := range f.Nodes {
		t.Places = append(t.Places, page.Place{Name: n.Node, Zone: n.Zone})
		for _, r := range n.Results {
			if s, is := sessionOf(n.Node, r.Result); is && !s.Up {
				t.Sessions = append(t.Sessions, s)
			}
		}
	}
	return t
}

// slowest returns the nodes that took longest.
func (f Fleet) slowest(affected map[string]string) *page.Timeline {
	out := &page.Timeline{}
	nodes := slices.SortedStableFunc(slices.Values(f.Nodes), func(a, b FleetNode) int {
		return cmp.Compare(b.Elapsed, a.Elapsed)
	})
	for _, n := range nodes[:min(len(nodes), shownSlow)] {
		out.Total = max(out.Total, n.Elapsed)
		out.Bars = append(out.Bars, page.Bar{Label: n.Node, Word: n.word(affected), Took: n.Elapsed})
	}
	return out
}
