package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// foldAt is the width at which lines of a fenced block are wrapped, because viewers of Markdown do not wrap them.
const foldAt = 100

// writeMarkdown writes a ticket: the verdict, each cause with its evidence and fix, the bad results, the names of good
// checks, and how the node was checked. A node's texts are always formatted as code, so they cannot act as a link, a
// mention or a table.
func writeMarkdown(w io.Writer, d Document) error {
	var b strings.Builder
	named := map[probe.Status][]string{} // checks by status, in order
	for _, r := range d.own() {
		if !slices.Contains(named[r.Status], r.Check) {
			named[r.Status] = append(named[r.Status], r.Check)
		}
	}
	fmt.Fprintf(&b, "**%s** on node %s: %s\n", d.Word, Code(d.Node), Code(screen{Document: d}.answer(true)))
	for i, c := range d.Causes {
		if i == shownCauses {
			fmt.Fprintf(&b, "\n%d more causes are in the JSON report.\n", len(d.Causes)-i)
			break
		}
		fmt.Fprintf(&b, "\n### %s\n\n", Code(answerOf(c, string(c.Confidence))))
		fence(&b, "text", causeLines(c, foldAt))
		markdownFix(&b, c.Fix)
	}
	if len(d.Unexplained) > 0 {
		fmt.Fprintf(&b, "\nUnexplained: %s\n", codes(d.Unexplained))
	}
	if d.Outside != "" {
		fmt.Fprint(&b, "\n")
		fence(&b, "text", []string{notFromOutside(d.Outside)})
	}
	d.badTable(&b)
	if len(d.Contrast) > 0 {
		fmt.Fprint(&b, "\n")
		fence(&b, "text", d.Contrast)
	}
	for s, names := range notBad(named) {
		fmt.Fprintf(&b, "\n%s: %s\n", s, codes(names))
	}
	if text := d.fewer(); text != "" {
		fmt.Fprint(&b, "\n")
		fence(&b, "text", probe.Wrap(printable(text), foldAt))
	}
	fmt.Fprintf(&b, "\n%s (%s)%s\n\n%s\n", counted(d.Counts), answers(d.Counts, d.checks()), d.where(), d.provenance())
	_, err := io.WriteString(w, b.String())
	return err
}

// markdownFix writes a fix's commands: first the read-only commands, then the commands that change something.
func markdownFix(b *strings.Builder, fix probe.Fix) {
	check, change := steps(fix)
	if len(check) > 0 {
		fmt.Fprint(b, "\nCheck (reads only):\n\n")
		fenceSteps(b, check)
	}
	for _, block := range change {
		head := "Fix:"
		if block.If != "" {
			head = "Only if " + Code(block.If) + ":"
		}
		fmt.Fprintf(b, "\n%s\n\n", head)
		fenceSteps(b, block.Commands)
	}
}

// fenceSteps writes commands, each below its note.
func fenceSteps(b *strings.Builder, commands []string) {
	for i, step := range pastes(commands) {
		if i > 0 {
			fmt.Fprint(b, "\n")
		}
		if step.Note != "" {
			fmt.Fprintf(b, "%s\n\n", Code(step.Note))
		}
		if len(step.Commands) > 0 {
			fence(b, "sh", step.Commands)
		}
	}
}

// badTable writes the results that get their own line. It writes as many as fit.
func (d Document) badTable(b *strings.Builder) {
	shown := map[string]int{}
	for _, s := range probe.Statuses() {
		for _, r := range d.own() {
			if r.Status != s || !lined(r.Result) {
				continue
			}
			if len(shown) == 0 {
				fmt.Fprint(b, "\n| | check | target | saw |\n|---|---|---|---|\n")
			}
			kind := fmt.Sprintf("%s %s", s, r.Check)
			if shown[kind]++; shown[kind] <= rows {
				fmt.Fprintf(b, "| %s | %s | %s | %s |\n", s, cell(r.Check),
					cell(cmp.Or(strings.TrimSpace(r.Target+" "+fromOf(r.Result)), "-")), cell(r.Saw))
			}
		}
	}
	var more []string
	for _, kind := range slices.Sorted(maps.Keys(shown)) {
		if n := shown[kind] - rows; n > 0 {
			more = append(more, Code(fmt.Sprintf("%d %s", n, kind)))
		}
	}
	if len(more) > 0 {
		fmt.Fprintf(b, "\nand %s\n", strings.Join(more, ", "))
	}
}

// placed returns the attempts to place a probe on the node, in order.
func (d Document) placed() []probe.Result {
	var out []probe.Result
	for _, r := range d.own() {
		if r.Check == probe.CheckPlaced {
			out = append(out, r.Result)
		}
	}
	return out
}

// where returns the node's cluster and the time of the run, if they are known.
func (d Document) where() string {
	text := ""
	if d.Cluster != nil {
		text = " of " + Code(d.Cluster.String())
	}
	if at := d.began(); !at.IsZero() {
		text += ", " + at.UTC().Format(time.RFC3339)
	}
	return text
}

// provenance returns the program, the run and the access methods with which the node was checked.
func (d Document) provenance() string {
	text := "calico-probe " + Code(d.Version) + ", run " + Code(d.Run)
	if methods := d.methods(); len(methods) > 0 {
		text += ", via " + codes(methods)
	}
	return text + fmt.Sprintf(", took %v", d.Elapsed.Round(100*time.Millisecond))
}

// Code puts foreign text between backticks. It uses more backticks than the text has in a row. It does not change the
// text, because a command with different quotes would be a different command.
func Code(text string) string {
	text = strings.TrimSpace(printable(text))
	mark := "`"
	for strings.Contains(text, mark) {
		mark += "`"
	}
	if text == "" || strings.Contains(text, "`") {
		text = " " + text + " " // Markdown removes one space on each side
	}
	return mark + text + mark
}

func codes(texts []string) string {
	var out []string
	for _, text := range texts {
		out = append(out, Code(text))
	}
	return strings.Join(out, ", ")
}

// cell returns code for a table. In a table, a bar ends the cell even between backticks.
func cell(text string) string { return strings.ReplaceAll(Code(text), "|", `\|`) }

// fence writes lines as a code block. None of the lines can end the block.
func fence(b *strings.Builder, language string, lines []string) {
	mark := "```"
	var body strings.Builder
	for _, line := range lines {
		line = printable(line) // clean first: a removed character may have separated two backticks
		for strings.Contains(line, mark) {
			mark += "`"
		}
		body.WriteString(line + "\n")
	}
	fmt.Fprintf(b, "%s%s\n%s%s\n", mark, language, body.String(), mark)
}

// Fence returns a text as a Markdown code block. None of the text's lines can end the block. It wraps long lines at
// spaces.
func Fence(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, probe.Wrap(line, foldAt)...)
	}
	var b strings.Builder
	fence(&b, "text", lines)
	return b.String()
}
