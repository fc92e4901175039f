package runbook

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// width is the width of a standard terminal in columns.
const width = 80

// WriteEntry prints one step for a person.
func WriteEntry(w io.Writer, e Entry) error {
	var b strings.Builder
	para := func(indent int, text string) { b.WriteString(wrap(plainly(text), indent)) }
	head := e.Kind
	if e.Name != "" {
		head = e.Name
	}
	switch {
	case e.LeftOut != "": // nothing to print; the record has the condition
	case e.Kind == "run":
		for _, a := range e.Asked {
			writeAsked(para, head, a)
		}
		if e.Text != "" {
			para(0, head+": "+e.Text)
		}
	case e.Fleet != nil:
		e.Fleet.write(para, head)
	case e.Kind == "wait":
		state := fmt.Sprintf("true at attempt %d: %s", e.Tries, e.That)
		if !*e.Held {
			state = e.Text
		}
		para(0, head+": "+state)
		for _, a := range e.Asked {
			writeAsked(para, head, a)
		}
	case e.Result != nil:
		para(0, fmt.Sprintf("%s: %s %s: %s", head, e.Result.Status, e.Result.Check, e.Result.Saw))
	case e.Answer != nil:
		para(0, fmt.Sprintf("%s: %s", head, e.Text))
		para(4, fmt.Sprintf("%s (by %s)", e.Answer.Text, e.Answer.By))
	case e.Choice != nil:
		para(0, fmt.Sprintf("%s: %s", head, e.Choice))
	case e.Kind == "assert" && *e.Held:
		para(0, head+": true: "+e.That)
	case e.Kind == "assert":
		para(0, head+": false: "+e.That)
		para(4, e.Text)
	case e.Notified != nil && e.Notified.Failed != "":
		para(0, fmt.Sprintf("%s: %s was NOT notified: %s", head, e.Notified.Whom, e.Notified.Failed))
	case e.Notified != nil:
		para(0, fmt.Sprintf("%s: %s was notified", head, e.Notified.Whom))
	case e.Deed != nil:
		e.Deed.write(&b, para, head)
	case e.Kind == "conclude": // the outcome has its text
	case e.Kind == "note":
		para(0, head+":")
		writeNote(&b, para, e.Text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeNote indents a note: a text from a node must not look like a step. It joins consecutive lines of prose into one
// paragraph, because the file's line breaks do not fit the terminal.
func writeNote(b *strings.Builder, para func(int, string), text string) {
	var prose []string
	end := func() {
		if len(prose) > 0 {
			para(4, strings.Join(prose, " "))
		}
		prose = nil
	}
	for line := range strings.Lines(text) {
		switch words := strings.TrimSpace(line); {
		case strings.HasPrefix(line, "    "): // a command, printed unchanged for copying
			end()
			b.WriteString(probe.Plain(strings.TrimRight(line, " \n")) + "\n")
		case words == "":
			end()
		case strings.HasPrefix(words, "- "): // item of a list
			end()
			prose = []string{words}
		default:
			prose = append(prose, words)
		}
	}
	end()
}

func writeAsked(para func(int, string), head string, a Asked) {
	via := ""
	if len(a.answering()) > 0 {
		via = " via " + strings.Join(a.answering(), ", ")
	}
	para(0, fmt.Sprintf("%s: calico-probe checked node %s%s: %s", head, a.Node, via, a.Verdict))
	for _, r := range a.silent() {
		para(4, fmt.Sprintf("%s failed: %s", r.Target, r.Saw))
	}
	if a.Lacks != "" {
		para(4, a.Lacks)
	}
	for _, c := range a.Causes {
		para(4, fmt.Sprintf("%s (%s): %s", c.ID, c.Confidence, c.Says))
		for _, clue := range c.For[:min(len(c.For), shownBad)] {
			para(6, fmt.Sprintf("%s %s: %s", clue.Status, strings.TrimSpace(clue.Check+" "+clue.Target), clue.Saw))
		}
	}
	if len(a.Causes) > 0 {
		return
	}
	bad := a.bad()
	for _, r := range bad[:min(len(bad), shownBad)] {
		para(4, fmt.Sprintf("%s %s: %s", r.Status, r.label(), r.Saw))
	}
	if n := len(bad) - shownBad; n > 0 {
		para(4, fmt.Sprintf("and %d more bad results", n))
	}
}

// silent returns the results about access methods that did not reach the node.
func (a Asked) silent() []Result {
	var out []Result
	for _, r := range a.Results {
		if r.Node == a.Node && r.Check == probe.CheckPlaced && r.Status == string(probe.Unknown) && r.Target != "" {
			out = append(out, r)
		}
	}
	return out
}

// answering returns the access methods that did reach the node.
func (a Asked) answering() []string {
	silent := a.silent()
	return slices.DeleteFunc(slices.Clone(a.Methods), func(method string) bool {
		return slices.ContainsFunc(silent, func(r Result) bool { return r.Target == method })
	})
}

// bad returns the node's bad results, the worst first, without those of silent.
func (a Asked) bad() []Result {
	var out []Result
	for _, s := range []probe.Status{probe.Fail, probe.Unknown, probe.Warn} {
		for _, r := range a.Results {
			if r.Node == a.Node && r.Status == string(s) &&
				(r.Check != probe.CheckPlaced || s != probe.Unknown || r.Target == "") {
				out = append(out, r)
			}
		}
	}
	return out
}

func (c Choice) String() string {
	switch {
	case c.Branch == "":
		return "no branch matches"
	case c.When == "":
		return c.Branch + " (no other branch matches)"
	}
	return c.Branch // the record has the condition
}

func (d Deed) write(b *strings.Builder, para func(int, string), head string) {
	para(0, fmt.Sprintf("%s: %s", head, d.Says))
	para(4, "touches: "+d.Touches)
	b.WriteString("    command: " + plainly(Quoted(d.Command)) + "\n") // never wrap it: half a command does something else
	for _, k := range d.Kept {
		had := fmt.Sprintf("lines: %d (-o markdown and json have them)", len(k.Lines))
		if k.Failed != "" {
			had = "nothing: " + k.Failed
		}
		para(4, fmt.Sprintf("saved before it ran: %s: %s", k.Label(), had))
	}
	switch {
	case d.NotRun != "":
		para(4, "NOT run: "+d.NotRun)
	case d.Unsure != "":
		para(4, fmt.Sprintf("confirmed by %s: UNKNOWN whether it ran: %s", d.By, d.Unsure))
	default:
		para(4, fmt.Sprintf("run, confirmed by %s: exit code %d", d.By, d.Exit))
	}
	if d.Before != "" {
		para(4, "UNKNOWN whether it ran before: "+d.Before)
	}
	for line := range strings.Lines(d.Output) {
		para(6, line)
	}
}

// Quoted returns a command as a user would type it.
func Quoted(words []string) string {
	var out []string
	for _, w := range words {
		out = append(out, probe.Quote(w))
	}
	return strings.Join(out, " ")
}

// WriteOutcome prints the outcome of a runbook for a person.
func WriteOutcome(w io.Writer, o Outcome) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s (exit code %d)\n", o.Verdict, o.Exit)
	if o.Says != "" {
		b.WriteString(wrap(plainly(o.Says), 2))
	}
	if o.Next != "" {
		b.WriteString(wrap("next: "+plainly(o.Next), 2))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap breaks a text into indented lines. Lines after the first are indented further.
func wrap(text string, indent int) string {
	margin := strings.Repeat(" ", indent)
	if lines := probe.Wrap(text, width-indent-2); lines[0] != "" {
		return margin + strings.Join(lines, "\n  "+margin) + "\n"
	}
	return ""
}
