package cluster

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// Plural formats a count: "1 restart", "3 restarts".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Few names the first items of a list. It makes them safe to display, because in the API an owner's name is free text.
func Few(names []string) string {
	text := probe.OneLine(strings.Join(names[:min(len(names), maxNamed)], ", "))
	if more := len(names) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
