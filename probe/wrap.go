package probe

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks a text into lines of at most width bytes. It breaks lines at spaces. It splits a word only if the word
// is longer than a line.
func Wrap(text string, width int) []string {
	var out []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		for width > 0 && len(word) > width {
			if line != "" {
				out = append(out, line)
				line = ""
			}
			end := width
			for end > 1 && !utf8.RuneStart(word[end]) {
				end--
			}
			out = append(out, word[:end])
			word = word[end:]
		}
		if line != "" && len(line)+1+len(word) > width {
			out = append(out, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(out, line)
}
