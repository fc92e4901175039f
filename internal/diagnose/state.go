package diagnose

import (
	"strings"
)

// WithoutBraces is a text that has no name of an argument.
func WithoutBraces(text string) string { return strings.NewReplacer("{", "(", "}", ")").Replace(text) }
