package ui

import (
	"io"
	"strings"

	"github.com/calico-probe/calico-probe/internal/prompt"
)

// Page writes a text with several lines. If w's terminal is narrower, it breaks lines at spaces and aligns the rest
// with the line's text, which may follow a name. A line that begins with a
// space is a command to copy, and is not wrapped.
func Page(w io.Writer, text string) error {
	_, err := io.WriteString(w, paged(text, Width(w)))
	return err
}

// paged wraps a text for a terminal with this width; 0 = no wrapping. If a line's name needs more than a third of the
// width, continuation lines are not aligned with the line's text.
func paged(text string, width int) string {
	return prompt.Fold(text, width, func(line string) int {
		if strings.HasPrefix(line, " ") {
			return -1
		}
		name, rest, row := strings.Cut(line, "  ")
		if !row {
			return 0
		}
		blanks := 2 + len(rest) - len(strings.TrimLeft(rest, " "))
		if beside := prompt.Columns(name) + blanks; beside <= width/3 {
			return beside
		}
		return 2
	})
}
