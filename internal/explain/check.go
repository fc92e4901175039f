package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
	"github.com/calico-probe/calico-probe/probe"
)

// Check is a check in the output of 'checks -o json'.
type Check struct {
	ID       string   `json:"id"`
	Asks     string   `json:"asks"`
	Doc      string   `json:"doc"`
	From     []string `json:"from"`
	Profile  string   `json:"profile"` // the smallest profile that includes it
	Tags     []string `json:"tags,omitempty"`
	Needs    []string `json:"needs,omitempty"`
	Access   []string `json:"access,omitempty"`
	Deadline string   `json:"deadline"`
}

func describe(c *probe.Check) Check {
	words := cause.Words(c.ID)
	d := Check{
		ID: c.ID, Asks: words.Asks, Doc: words.Doc, From: []string{string(c.From)},
		Profile: string(cmp.Or(c.In, probe.Quick)),
		Tags:    c.Tags, Needs: c.Needs, Access: c.Access, Deadline: c.Deadline().String(),
	}
	if c.Inside {
		d.From = append(d.From, string(probe.FromPod))
	}
	return d
}

// Rows returns a check's properties, without its text.
func (d Check) Rows() [][2]string {
	return slices.DeleteFunc([][2]string{
		{"runs from", strings.Join(d.From, ", ")}, {"profile", d.Profile}, {"deadline", d.Deadline}, {"needs",
			strings.Join(d.Needs, ", ")},
		{"touches", strings.Join(d.Access, ", ")}, {"tags", strings.Join(d.Tags, ", ")},
	}, func(row [2]string) bool { return row[1] == "" })
}

// Checks describes the checks of a suite.
func Checks(suite []*probe.Check) []Check {
	out := make([]Check, 0, len(suite))
	for _, c := range suite {
		out = append(out, describe(c))
	}
	return out
}

// CheckReference returns a Markdown page with all checks of a suite.
func CheckReference(suite []*probe.Check) string {
	var b strings.Builder
	fmt.Fprint(&b, "\n# Checks\n\nEach check answers one question. `calico-probe explain CHECK` prints the same text.\n\n"+
		"| check | question |\n|---|---|\n")
	for _, d := range Checks(suite) {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", d.ID, d.ID, d.Asks)
	}
	for _, d := range Checks(suite) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n%s\n\n", d.ID, Prose(capital(d.Asks)), Prose(d.Doc))
		for _, row := range d.Rows() {
			fmt.Fprintf(&b, "- %s: %s\n", row[0], Prose(row[1]))
		}
	}
	return b.String()
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
