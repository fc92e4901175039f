package diagnose

import (
	"strings"
)

// WithoutBraces returns a text in which no braces can name an argument.
func WithoutBraces(text string) string { return strings.NewReplacer("{", "(", "}", ")").Replace(text) }
