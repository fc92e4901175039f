package mesh

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/calico-probe/calico-probe/probe"
)

// writeZones writes a table of the paths from the zone in each row to the zone in each column. Columns that do not fit
// follow in a further table.
func (p Plane) writeZones(s *sheet, nodes []Member) {
	zone := map[string]string{}
	var all []string
	for _, n := range nodes {
		zone[n.Name] = cmp.Or(n.Zone, "-")
		if !slices.Contains(all, zone[n.Name]) {
			all = append(all, zone[n.Name])
		}
	}
	if len(all) < 2 || len(all) > shownZones {
		return
	}
	slices.Sort(all)
	cells := map[[2]string]*cell{}
	for _, t := range p.Trials {
		key := [2]string{zone[t.From], zone[t.To]}
		if zone[t.To] == "" { // outside these nodes
			continue
		}
		if cells[key] == nil {
			cells[key] = &cell{}
		}
		cells[key].add(t)
	}
	rows := [][]string{{"from \\ to"}}
	for _, name := range all {
		rows[0] = append(rows[0], zoneName(name))
		row := []string{zoneName(name)}
		for _, to := range all {
			row = append(row, cells[[2]string{name, to}].String())
		}
		rows = append(rows, row)
	}
	s.table(rows)
}

// zoneName shortens a zone's name for a table. Zone names usually differ at the end, so it cuts the beginning.
func zoneName(zone string) string {
	letters := []rune(probe.Line(zone))
	if len(letters) > maxZoneName {
		return "…" + string(letters[len(letters)-maxZoneName+1:])
	}
	return string(letters)
}

// table writes rows. If they are too wide, it splits the columns into several tables and repeats the first column.
func (s *sheet) table(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	for from := 1; from < len(widths); {
		end, wide := from, 2+widths[0]
		for end < len(widths) && (end == from || wide+2+widths[end] <= s.width) {
			wide += 2 + widths[end]
			end++
		}
		for _, row := range rows {
			line := fmt.Sprintf("  %-*s", widths[0], row[0])
			for i := from; i < end; i++ {
				line += fmt.Sprintf("  %-*s", widths[i], row[i])
			}
			fmt.Fprintln(s, strings.TrimRight(line, " "))
		}
		from = end
	}
}

// cell holds the paths from one zone to another.
type cell struct {
	tried, failed int
	rtts          []float64
}

func (c *cell) add(t Trial) {
	c.tried++
	if t.Failed {
		c.failed++
	} else if t.RTT > 0 {
		c.rtts = append(c.rtts, t.RTT)
	}
}

// String returns a text such as "3/20 fail, 1.2ms". The time is the median.
func (c *cell) String() string {
	if c == nil {
		return "-"
	}
	text := "ok"
	if c.failed > 0 {
		text = fmt.Sprintf("%d/%d fail", c.failed, c.tried)
	}
	if len(c.rtts) > 0 {
		slices.Sort(c.rtts)
		text += fmt.Sprintf(" %.1fms", c.rtts[len(c.rtts)/2])
	}
	return text
}
