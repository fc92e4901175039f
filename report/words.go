package report

import "strings"

// Code is foreign text between backticks of Markdown, where nothing of it is a link, a
// mention or a table.
func Code(text string) string { return code(text) }

// Fence is a text as a block of code of Markdown, which none of its lines can end; long
// ones are broken at spaces.
func Fence(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, wrapped(line, foldAt)...)
	}
	var b strings.Builder
	fence(&b, "text", lines)
	return b.String()
}
