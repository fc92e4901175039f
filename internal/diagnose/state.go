package diagnose

import (
	"strings"
)

// WithoutBraces replaces the braces in a text, so they cannot name an argument.
func WithoutBraces(text string) string { return strings.NewReplacer("{", "(", "}", ")").Replace(text) }
