package probe

import (
	"strings"
	"unicode"
)

// Plain makes foreign text fit for a terminal: no control characters that could move the
// cursor, recolour what is on the screen or name a window. New lines and tabs stay; who
// prints lines or columns makes of them what fits there.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '?'
		}
		return r
	}, s)
}
