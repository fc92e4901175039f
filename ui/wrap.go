package ui

import (
	"io"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// Page writes a text of several lines, broken at spaces where w leads to a terminal that is
// narrower. What goes on is indented as the text of its line, which may stand behind a name. A line
// that begins with a space is a command, to be copied, and stays whole.
func Page(w io.Writer, text string) error {
	_, err := io.WriteString(w, paged(text, Width(w)))
	return err
}

// paged is a text for a terminal of this width, 0 = none.
func paged(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if width == 0 || len(line) <= width || strings.HasPrefix(line, " ") {
			b.WriteString(line)
			continue
		}
		name, rest := "", line
		if before, after, row := strings.Cut(line, "  "); row {
			rest = strings.TrimLeft(after, " ")
			name = before + strings.Repeat(" ", len(line)-len(before)-len(rest))
		}
		indent := strings.Repeat(" ", len(name))
		b.WriteString(name + strings.Join(probe.Wrap(rest, width-len(name)-1), "\n"+indent) + "\n")
	}
	return b.String()
}
