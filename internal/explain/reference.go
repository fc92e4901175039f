package explain

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
)

// Reference returns a Markdown page with all causes of a suite.
func Reference(suite diagnose.Suite) string {
	var b strings.Builder
	fmt.Fprint(&b, `
# Causes

What a run can report, as `+"`calico-probe explain CAUSE`"+` explains it. A run replaces the names in braces:
do not paste them as they are here. calico-probe never runs a fix.

| cause | fault |
|---|---|
`)
	for _, r := range suite.Rules {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", r.ID, r.ID, Prose(r.Title))
	}
	for _, r := range suite.Rules {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n%s\n", r.ID, Prose(r.Title), Prose(r.Doc))
		if r.Advice != "" {
			fmt.Fprintf(&b, "\nBefore you change anything: %s\n", Prose(r.Advice))
		}
		fmt.Fprintf(&b, "\nFix: %s\n", Prose(r.Fix.Says))
		for _, block := range r.Fix.Blocks() {
			if block.If != "" {
				fmt.Fprintf(&b, "\nOnly if %s:\n", Prose(block.If))
			}
			fmt.Fprintf(&b, "\n```text\n%s\n```\n", strings.Join(block.Commands, "\n"))
		}
		fmt.Fprintf(&b, "\nTouches: %s\n", Prose(r.Fix.Radius))
		if len(r.Explains) > 0 {
			fmt.Fprintf(&b, "\nAlso accounts for: %s\n", strings.Join(r.Explains, ", "))
		}
	}
	return b.String()
}

// Prose converts a text to Markdown that looks the same as the text on a terminal: each line is a paragraph.
func Prose(text string) string {
	return strings.NewReplacer("\n", "\n\n", "*", `\*`, "_", `\_`, "<", `\<`, "`", "\\`", "|",
		`\|`, "[", `\[`).Replace(text)
}
