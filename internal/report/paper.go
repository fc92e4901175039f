package report

import (
	"cmp"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// paper describes the output for a report for people: a terminal, or a file. A file is as wide as the narrowest
// terminal.
type paper struct {
	colour bool
	width  int // in columns; 0 = narrowest
}

// narrowest is the minimum terminal width that a report assumes, and the report's width if there is no terminal.
const narrowest = 80

// widest is the maximum width of a line of text on wide terminals: longer lines are hard to read.
const widest = 110

func (p paper) columns() int { return min(cmp.Or(p.width, narrowest), widest) }

// indented returns the lines of a text, indented.
func (p paper) indented(by int, text string) string {
	return strings.Repeat(" ", by) + p.from(by, text) + "\n"
}

// from returns a text that begins in a column of a line. Its other lines also begin in that column.
func (p paper) from(column int, text string) string {
	return strings.Join(probe.Wrap(printable(text), p.columns()-column), "\n"+strings.Repeat(" ", column))
}

func (p paper) paint(s probe.Status, text string) string {
	if !p.colour {
		return text
	}
	return colour(s) + text + uncoloured
}

// printable removes the characters that could control the terminal from a node's text.
func printable(s string) string {
	return strings.ReplaceAll(probe.Line(s), "\t", " ")
}

// uncoloured is the sequence that ends a colour.
const uncoloured = "\x1b[0m"

// colour returns the sequence that begins a status's colour.
func colour(s probe.Status) string {
	return "\x1b[" + map[probe.Status]string{
		probe.OK: "32", probe.Info: "36", probe.Warn: "33", probe.Fail: "1;31", probe.Unknown: "35", probe.Skip: "90",
	}[s] + "m"
}

// Colours lists all sequences with which reports control a terminal.
func Colours() []string {
	out := []string{uncoloured}
	for _, s := range probe.Statuses() {
		out = append(out, colour(s))
	}
	return out
}
