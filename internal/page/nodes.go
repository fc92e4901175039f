package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Limits for what a page shows without a script.
const (
	staticNodes = 12      // nodes with a row
	maxDrawn    = 40      // zones with a separate picture
	maxNames    = 150_000 // bytes of a list of names
)

// list is the part of the list of nodes that a page shows without a script.
type list struct {
	Zones  []zoneOf
	Worst  []Node   // unhealthy nodes, worst first, as many as fit
	Others []string // names of the other unhealthy nodes
	Names  []string // names of the healthy nodes, zone by zone
	Across int
}

// zoneOf is the picture of one zone. Each node is a square.
type zoneOf struct {
	Name   string
	Counts []Count
	First  int // index of its first node among all nodes
	Size   int
	Wide   int // width of the picture
	High   int
	Runs   []run
}

// run is a sequence of squares with one colour in one row.
type run struct {
	Word string
	Path string
}

// Ordered sorts nodes in the order in which a page shows them: zone by zone, and the worst first in each zone.
func Ordered(nodes []Node) {
	slices.SortStableFunc(nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(rank(a.Word), rank(b.Word)), cmp.Compare(a.Name, b.Name))
	})
}

func listed(nodes []Node) *list {
	if len(nodes) == 0 {
		return nil
	}
	l := &list{Across: 96}
	if len(nodes) <= 200 {
		l.Across = 32
	}
	for at := 0; at < len(nodes); {
		end := at
		for end < len(nodes) && nodes[end].Zone == nodes[at].Zone {
			end++
		}
		l.Zones = append(l.Zones, l.zone(nodes[at:end], at))
		at = end
	}
	if n := len(l.Zones); n > maxDrawn { // each node has a different value of the zone label
		l.Zones = []zoneOf{l.zone(nodes, 0)}
		l.Zones[0].Name = fmt.Sprintf("%d zones", n)
	}
	for _, n := range nodes {
		if class(n.Word) == "good" {
			l.Names = append(l.Names, n.Name)
		} else {
			l.Worst = append(l.Worst, n)
		}
	}
	slices.SortStableFunc(l.Worst, func(a, b Node) int { return cmp.Compare(rank(a.Word), rank(b.Word)) })
	for _, n := range l.Worst[min(len(l.Worst), staticNodes):] {
		l.Others = append(l.Others, n.Name+" ("+n.Word+")")
	}
	l.Worst = l.Worst[:min(len(l.Worst), staticNodes)]
	return l
}

// unit is the side of a square including the gap after it. gap is the width of that gap.
const (
	unit = 10
	gap  = 2
)

// zone draws the nodes of one zone as squares in rows. To keep the page small, it draws each run of one colour as one
// dashed line.
func (l *list) zone(nodes []Node, first int) zoneOf {
	z := zoneOf{Name: cmp.Or(nodes[0].Zone, "-"), First: first, Size: len(nodes), Wide: l.Across * unit,
		High: (len(nodes) + l.Across - 1) / l.Across * unit}
	for at := 0; at < len(nodes); {
		end := at + 1
		for end < len(nodes) && end%l.Across != 0 && class(nodes[end].Word) == class(nodes[at].Word) {
			end++
		}
		x, y := at%l.Across*unit, at/l.Across*unit+(unit-gap)/2
		path := fmt.Sprintf("M%d %dh%d", x, y, (end-at)*unit-gap)
		if n := len(z.Runs); n > 0 && class(z.Runs[n-1].Word) == class(nodes[at].Word) {
			z.Runs[n-1].Path += path
		} else {
			z.Runs = append(z.Runs, run{Word: nodes[at].Word, Path: path})
		}
		at = end
	}
	z.Counts = counted(nodes)
	return z
}

// counted returns the number of nodes with each word, worst first.
func counted(nodes []Node) []Count {
	var out []Count
	for _, n := range nodes {
		at := slices.IndexFunc(out, func(c Count) bool { return c.Word == n.Word })
		if at < 0 {
			at, out = len(out), append(out, Count{Word: n.Word})
		}
		out[at].N++
	}
	slices.SortStableFunc(out, func(a, b Count) int { return cmp.Compare(rank(a.Word), rank(b.Word)) })
	return out
}

// joined returns a list of names, as many as fit.
func joined(names []string) string {
	var b strings.Builder
	for i, name := range names {
		if b.Len() > maxNames {
			return b.String() + fmt.Sprintf(" and %d more", len(names)-i)
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name)
	}
	return b.String()
}
