package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// writeNames writes cause/ID for each cause, the most likely first. Then it writes check/ID once for each check with a
// fail, unknown or warn about the node, worst first. For a healthy node it writes no lines.
func writeNames(w io.Writer, d Document) error {
	var out []string
	add := func(line string) {
		if !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	for _, c := range d.Causes {
		add("cause/" + printable(c.ID))
	}
	for _, s := range probe.Statuses() {
		for _, r := range d.own() {
			if r.Status == s && !quiet(s) {
				add("check/" + printable(r.Check))
			}
		}
	}
	var b strings.Builder
	for _, line := range out {
		fmt.Fprintln(&b, line)
	}
	_, err := io.WriteString(w, b.String()) // even if empty: it replaces the file of an earlier run
	return err
}
