package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Matrix holds the paths between a page's nodes. The page shows groups of nodes. The script can open a cell and show
// even single paths.
type Matrix struct {
	Paths []Path
	grid  grid
}

// grid is the part of a matrix that the page shows.
type grid struct {
	Heads []string
	Rows  []gridRow
	Dense bool // too many columns for text in the cells
}

// Path leads from one node to another. Both are indexes into the nodes of the page.
type Path struct {
	From, To int
	Word     string  // fail, unknown, lossy or ok
	MS       float64 // round-trip time; 0 = unknown
	Saw      string
}

// gridRow holds the paths from one group of nodes to each group.
type gridRow struct {
	Head  string
	Cells []cell
	Sum   cell
}

// cell holds the paths from one group to another.
type cell struct {
	Tried, Failed, Open, Lossy int
	MS                         float64 // the median
	times                      []float64
}

// group is a set of nodes that share a row.
type group struct {
	Name  string `json:"n"`
	Nodes []int  `json:"i"`
}

// Limits for the part of a matrix that is shown at once. script.js has the same numbers.
const (
	maxSingle = 40 // up to this many nodes, each has a separate row
	maxBad    = 30 // maximum number of failing nodes with a separate row, if there are more nodes
	maxBlocks = 10 // maximum number of rows that the other nodes share
	denseFrom = 12 // columns
)

// The letters of packed paths.
const (
	letterOK    = 'o'
	letterLossy = 'w'
	letterOpen  = 'u'
	letterFail  = 'x'
)

// draw creates the grid.
func (m *Matrix) draw(nodes []Node) []group {
	groups := m.groups(nodes)
	at := make([]int, len(nodes))
	for i, g := range groups {
		for _, n := range g.Nodes {
			at[n] = i
		}
		m.grid.Heads = append(m.grid.Heads, g.Name)
		m.grid.Rows = append(m.grid.Rows, gridRow{Head: g.Name, Cells: make([]cell, len(groups))})
	}
	m.grid.Dense = len(groups) > denseFrom
	for _, p := range m.Paths {
		row := &m.grid.Rows[at[p.From]]
		row.Cells[at[p.To]].add(p)
		row.Sum.add(p)
	}
	for i := range m.grid.Rows {
		m.grid.Rows[i].Sum.middle()
		for j := range m.grid.Rows[i].Cells {
			m.grid.Rows[i].Cells[j].middle()
		}
	}
	return groups
}

// groups returns the zones, or the nodes if there is only one zone.
func (m *Matrix) groups(nodes []Node) []group {
	var zones []group
	for i, n := range nodes {
		name := cmp.Or(n.Zone, "-")
		at := slices.IndexFunc(zones, func(g group) bool { return g.Name == name })
		if at < 0 {
			at, zones = len(zones), append(zones, group{Name: name})
		}
		zones[at].Nodes = append(zones[at].Nodes, i)
	}
	if len(nodes) > maxSingle && len(zones) > 1 && len(zones) <= maxSingle {
		return zones
	}
	return m.split(nodes)
}

// split returns a separate row for each node with a failed path, worst first, and groups of the other nodes.
func (m *Matrix) split(nodes []Node) []group {
	failed := make([]int, len(nodes))
	for _, p := range m.Paths {
		if p.Word == "fail" {
			failed[p.From]++
			failed[p.To]++
		}
	}
	order := make([]int, len(nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(failed[b]-failed[a], cmp.Compare(nodes[a].Name, nodes[b].Name))
	})
	single := len(nodes)
	if single > maxSingle {
		single = maxBad
		for single > 0 && failed[order[single-1]] == 0 {
			single--
		}
	}
	var out []group
	for _, i := range order[:single] {
		out = append(out, group{Name: nodes[i].Name, Nodes: []int{i}})
	}
	rest := order[single:]
	if len(rest) == 0 {
		return out
	}
	size := (len(rest) + maxBlocks - 1) / maxBlocks
	for block := range slices.Chunk(rest, size) {
		out = append(out, group{Name: blockName(nodes, block), Nodes: block})
	}
	return out
}

func blockName(nodes []Node, block []int) string {
	if len(block) == 1 {
		return nodes[block[0]].Name
	}
	return fmt.Sprintf("%d nodes from %s", len(block), nodes[block[0]].Name)
}

func (c *cell) add(p Path) {
	c.Tried++
	switch p.Word {
	case "fail":
		c.Failed++
	case "unknown":
		c.Open++
	case "lossy":
		c.Lossy++
	}
	if p.MS > 0 {
		c.times = append(c.times, p.MS)
	}
}

func (c *cell) middle() {
	if len(c.times) > 0 {
		slices.Sort(c.times)
		c.MS = c.times[len(c.times)/2]
	}
	c.times = nil
}

// colour returns the class for the share of failing paths.
func (c cell) colour() string {
	switch {
	case c.Tried == 0:
		return "none"
	case c.Failed > 0:
		return fmt.Sprintf("bad%d", 1+(c.Failed*3)/c.Tried) // bad4 = all failed
	case c.Open > 0:
		return "open"
	case c.Lossy > 0:
		return "warn"
	}
	return "good"
}

// String returns a cell's text: 3 of 20 fail.
func (c cell) String() string {
	switch {
	case c.Tried == 0:
		return ""
	case c.Failed > 0 && c.Failed == c.Tried:
		return fmt.Sprintf("all %d fail", c.Tried)
	case c.Failed > 0:
		return fmt.Sprintf("%d of %d fail", c.Failed, c.Tried)
	case c.Open > 0:
		return fmt.Sprintf("%d of %d unknown", c.Open, c.Tried)
	case c.Lossy > 0:
		return fmt.Sprintf("%d of %d lossy", c.Lossy, c.Tried)
	case c.MS > 0:
		return "ok " + milliseconds(c.MS)
	}
	return "ok"
}

func milliseconds(ms float64) string {
	if ms < 10 {
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}

// plane returns the matrix in the form that the script needs.
func (m *Matrix) plane(nodes []Node) plane {
	p := plane{Rows: m.draw(nodes), Saw: map[int]string{}}
	letters := make([]byte, 0, len(m.Paths))
	for i, path := range m.Paths {
		letter := byte(letterOK)
		switch path.Word {
		case "fail":
			letter = letterFail
		case "unknown":
			letter = letterOpen
		case "lossy":
			letter = letterLossy
		}
		letters = append(letters, letter)
		p.From, p.To = append(p.From, path.From), append(p.To, path.To)
		p.Times = append(p.Times, math.Round(path.MS*10)/10)
		if letter != letterOK && path.Saw != "" {
			p.Saw[i] = path.Saw
		}
	}
	p.Words = string(letters)
	return p
}

// plane holds one matrix's paths in columns.
type plane struct {
	Rows  []group        `json:"rows"` // the rows of the page's grid
	From  []int          `json:"f"`
	To    []int          `json:"t"`
	Words string         `json:"w"`            // a letter for each path: o, w, u or x
	Times []float64      `json:"ms,omitempty"` // 0 = none
	Saw   map[int]string `json:"saw,omitempty"`
}
