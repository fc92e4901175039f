package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// What a page has without script.
const (
	staticNodes = 12      // that have a row
	mostDrawn   = 40      // zones that have a picture of their own
	mostNames   = 150_000 // bytes of a list of names
)

// list is what a page shows of its nodes by itself.
type list struct {
	Zones  []zoneOf
	Worst  []Node   // those that are not well, the worst first, as far as there is room
	Others []string // that are not well either, by name
	Names  []string // of those that are, zone by zone
	Across int
}

// zoneOf is the nodes of one zone, each a square.
type zoneOf struct {
	Name   string
	Counts []Count
	First  int // the place of its first node among all
	Size   int
	Wide   int // of the picture
	High   int
	Runs   []run
}

// run is squares of one colour in one row.
type run struct {
	Word string
	Path string
}

// Ordered puts nodes in the order in which a page has them: zone by zone, and in each the worst first.
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
	if n := len(l.Zones); n > mostDrawn { // some label that is another one on each node
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

// unit is the side of a square with the gap behind it, and gap that gap.
const (
	unit = 10
	gap  = 2
)

// zone draws the nodes of one zone: squares in rows, those of one colour as one line of dashes.
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

// counted is how many nodes have which word, the worst first.
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

// joined is a list of names, as far as there is room.
func joined(names []string) string {
	var b strings.Builder
	for i, name := range names {
		if b.Len() > mostNames {
			return b.String() + fmt.Sprintf(" and %d more", len(names)-i)
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name)
	}
	return b.String()
}
