package runbook

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
)

// WriteMarkdown writes the record for a ticket: the outcome, and every step. Texts from nodes and people are always
// formatted as code, so they cannot format the ticket or mention people.
func WriteMarkdown(w io.Writer, r *Record) error {
	var b strings.Builder
	if o := r.Outcome; o != nil {
		fmt.Fprintf(&b, "**%s** (exit code %d): runbook %s on node %s\n", o.Verdict, o.Exit, report.Code(r.Runbook), r.where())
		if says := strings.TrimSpace(o.Says + "\n" + prefixed("next: ", o.Next)); says != "" {
			b.WriteString("\n" + report.Fence(says))
		}
	} else {
		fmt.Fprintf(&b, "runbook %s on node %s is unfinished\n", report.Code(r.Runbook), r.where())
	}
	b.WriteString("\n### Steps\n\n")
	for _, e := range r.Steps {
		e.markdown(&b)
	}
	fmt.Fprintf(&b, "\ncalico-probe %s, runbook %s (%s), started %s by %s", report.Code(r.Version), report.Code(r.Runbook), report.Code(r.Digest), r.Began.UTC().Format("2006-01-02T15:04:05Z"), report.Code(r.By))
	if r.Outcome != nil {
		fmt.Fprintf(&b, ", ended %s", r.Outcome.Ended.UTC().Format("2006-01-02T15:04:05Z"))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		fmt.Fprintf(&b, ", %s", report.Code(name+"="+r.Params[name]))
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

// where returns the node and, if known, its cluster.
func (r *Record) where() string {
	if r.Cluster == nil {
		return report.Code(r.Node)
	}
	return report.Code(r.Node) + " of " + report.Code(r.Cluster.String())
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// markdown writes one step as an item of a list.
func (e Entry) markdown(b *strings.Builder) {
	at := ""
	if !e.At.IsZero() {
		at = e.At.UTC().Format(", 15:04:05")
	}
	fmt.Fprintf(b, "- %s %s (%s%s)", e.Step, report.Code(orKind(e)), e.Kind, at)
	block := func(text string) { blocks(b, text) }
	switch {
	case e.LeftOut != "":
		fmt.Fprintf(b, ": skipped, because this is false: %s\n", report.Code(e.LeftOut))
	case e.Kind == "run" || e.Kind == "wait":
		if e.Kind == "wait" {
			held := "did not become true"
			if *e.Held {
				held = "became true"
			}
			fmt.Fprintf(b, ": %s %s, at attempt %d", report.Code(e.That), held, e.Tries)
		}
		b.WriteString("\n")
		if e.Text != "" {
			block(e.Text)
		}
		for _, a := range e.Asked {
			a.markdown(b)
		}
	case e.Fleet != nil:
		e.Fleet.markdown(b)
	case e.Result != nil:
		fmt.Fprintf(b, ": %s\n  - **%s** %s: %s\n", report.Code(e.Text), e.Result.Status, report.Code(e.Result.Check),
			report.Code(e.Result.Saw))
	case e.Answer != nil:
		fmt.Fprintf(b, ": %s\n  - answered %s by %s\n", report.Code(e.Text), report.Code(e.Answer.Text), report.Code(e.Answer.By))
	case e.Choice != nil && e.Choice.When == "":
		fmt.Fprintf(b, ": %s\n", e.Choice)
	case e.Choice != nil:
		fmt.Fprintf(b, ": %s, because %s\n", e.Choice.Branch, report.Code(e.Choice.When))
	case e.Held != nil:
		held := "is false"
		if *e.Held {
			held = "is true"
		}
		fmt.Fprintf(b, ": %s %s\n", report.Code(e.That), held)
		if e.Text != "" {
			block(e.Text)
		}
	case e.Notified != nil && e.Notified.Failed != "":
		fmt.Fprintf(b, ": %s was **not** notified: %s\n", report.Code(e.Notified.Whom), report.Code(e.Notified.Failed))
	case e.Notified != nil:
		fmt.Fprintf(b, ": %s was notified\n", report.Code(e.Notified.Whom))
	case e.Deed != nil:
		e.Deed.markdown(b, block)
	default:
		b.WriteString("\n")
		block(e.Text)
	}
}

// blocks writes a text as code blocks. Commands, which are indented by four spaces, get their own block. They are never
// wrapped, because half a command does something else.
func blocks(b *strings.Builder, text string) {
	var prose strings.Builder
	var commands []string
	flush := func() {
		if strings.TrimSpace(prose.String()) != "" {
			for line := range strings.Lines(report.Fence(prose.String())) {
				b.WriteString("  " + line)
			}
		}
		if len(commands) > 0 {
			verbatim(b, "sh", commands)
		}
		prose.Reset()
		commands = nil
	}
	for line := range strings.Lines(text) {
		command, is := strings.CutPrefix(line, "    ")
		switch {
		case is && strings.TrimSpace(command) != "":
			commands = append(commands, strings.TrimRight(command, " \r\n"))
		case len(commands) > 0:
			flush()
			fallthrough
		default:
			prose.WriteString(line)
		}
	}
	flush()
}

// verbatim writes lines as a code block, without wrapping.
func verbatim(b *strings.Builder, language string, lines []string) {
	indented := make([]string, 0, len(lines))
	for _, line := range lines {
		indented = append(indented, "  "+probe.Line(line)+"\n")
	}
	text, mark := strings.Join(indented, ""), "```"
	for strings.Contains(text, mark) {
		mark += "`"
	}
	b.WriteString("  " + mark + language + "\n" + text + "  " + mark + "\n")
}

func orKind(e Entry) string {
	if e.Name == "" {
		return e.Kind
	}
	return e.Name
}

func (a Asked) markdown(b *strings.Builder) {
	by := "did not run"
	for i, method := range a.answering() {
		if by += ", " + report.Code(method); i == 0 {
			by = "via " + report.Code(method)
		}
	}
	fmt.Fprintf(b, "  - **%s** on node %s, %s\n", a.Verdict, report.Code(a.Node), by)
	for _, r := range a.silent() {
		fmt.Fprintf(b, "    - %s failed: %s\n", report.Code(r.Target), report.Code(r.Saw))
	}
	if a.Lacks != "" {
		fmt.Fprintf(b, "    - %s\n", report.Code(a.Lacks))
	}
	for _, c := range a.Causes {
		fmt.Fprintf(b, "    - cause %s (%s): %s\n", report.Code(strings.TrimSpace(c.ID+" "+c.About)), c.Confidence,
			report.Code(c.Says))
		for _, clue := range c.For[:min(len(c.For), shownBad)] {
			fmt.Fprintf(b, "      - %s %s: %s\n", clue.Status, report.Code(strings.TrimSpace(clue.Check+" "+clue.Target)),
				report.Code(clue.Saw))
		}
	}
	if len(a.Causes) > 0 {
		return
	}
	bad := a.bad()
	for _, r := range bad[:min(len(bad), shownBad)] {
		fmt.Fprintf(b, "    - %s %s: %s\n", r.Status, report.Code(r.label()), report.Code(r.Saw))
	}
	if n := len(bad) - shownBad; n > 0 {
		fmt.Fprintf(b, "    - and %d more bad results\n", n)
	}
}

func (d Deed) markdown(b *strings.Builder, block func(string)) {
	fmt.Fprintf(b, ": %s\n  - it touches %s\n  - command: %s\n", report.Code(d.Says), report.Code(d.Touches), report.Code(Quoted(d.Command)))
	if d.DryRun != "" {
		b.WriteString("  - the dry run showed:\n\n")
		block(d.DryRun)
	}
	for _, k := range d.Kept {
		fmt.Fprintf(b, "  - saved before it ran: %s", report.Code(k.Label()))
		if k.Failed != "" {
			fmt.Fprintf(b, ": nothing: %s\n", report.Code(k.Failed))
			continue
		}
		b.WriteString("\n\n")
		verbatim(b, "text", k.Lines)
	}
	switch {
	case d.NotRun != "":
		fmt.Fprintf(b, "  - **not run**: %s\n", report.Code(d.NotRun))
	case d.Unsure != "":
		fmt.Fprintf(b, "  - confirmed by %s: **unknown whether it ran**: %s\n", report.Code(d.By), report.Code(d.Unsure))
	default:
		fmt.Fprintf(b, "  - **run**, confirmed by %s: exit code %d\n", report.Code(d.By), d.Exit)
	}
	if d.Before != "" {
		fmt.Fprintf(b, "  - **unknown whether it ran before**: %s\n", report.Code(d.Before))
	}
	if strings.TrimSpace(d.Output) != "" {
		b.WriteString("\n")
		block(probe.Plain(d.Output))
	}
}
