package probe

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain makes foreign text fit for a terminal: nothing that could move the cursor, recolour
// what is on the screen, name a window or turn the order of letters round. Of what cannot be
// seen new lines and tabs stay; who prints lines or columns makes of them what fits there.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', unicode.IsGraphic(r):
			return r
		case r == '\r': // of a line that ends as those of HTTP do
			return -1
		}
		return '?'
	}, s)
}

// Cut shortens a text to so many bytes, dots at its end and no half letter before them.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const dots = "..."
	end := most - len(dots)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + dots
}
