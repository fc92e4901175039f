package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// table prints one line a result as it arrives, so its columns have fixed
// widths; a longer cell pushes the rest of its line to the right.
type table struct {
	w      io.Writer
	colour bool
	head   bool
	ways   []string
}

const (
	widthStatus = 8
	widthCheck  = 18
	widthTarget = 34
	evidence    = 6 // lines of evidence shown below a result that is not good
)

func (t *table) Event(ev probe.Event) error {
	var b strings.Builder
	switch ev.Type {
	case probe.EventResult:
		if !t.head {
			t.head = true
			fmt.Fprintf(&b, "%-*s %-*s %-*s %s\n", widthStatus, "STATUS", widthCheck, "CHECK", widthTarget, "TARGET", "SAW")
		}
		t.ways = appendWay(t.ways, ev.Way)
		t.row(&b, *ev.Result)
	case probe.EventVerdict:
		v := ev.Verdict
		fmt.Fprintf(&b, "\n%s: %s on node %s (%s, by way of %s)\n", t.paint(verdictStatus(v.Word), v.Word), summary(v.Counts),
			ev.Node, v.Elapsed.Round(100*time.Millisecond), strings.Join(t.ways, " and "))
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(t.w, b.String())
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func (t *table) row(b *strings.Builder, r probe.Result) {
	target := r.Target
	if target == "" {
		target = "-"
	}
	if r.From != "" {
		target += " from " + r.From
	}
	fmt.Fprintf(b, "%s %-*s %-*s %s\n", t.paint(r.Status, fmt.Sprintf("%-*s", widthStatus, r.Status)),
		widthCheck, r.Check, widthTarget, printable(target), printable(r.Saw))
	if r.Status == probe.OK || r.Status == probe.Info {
		return
	}
	for i, l := range r.Lines {
		if i == evidence {
			fmt.Fprintf(b, "%*s… %d more with -o json\n", widthStatus+1, "", len(r.Lines)-i)
			break
		}
		fmt.Fprintf(b, "%*s| %s\n", widthStatus+1, "", printable(l))
	}
}

// printable keeps what a node sent from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t', r == '\n':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0:
			return '?'
		}
		return r
	}, s)
}

func (t *table) paint(s probe.Status, text string) string {
	if !t.colour {
		return text
	}
	code := map[probe.Status]string{
		probe.OK: "32", probe.Info: "36", probe.Warn: "33", probe.Fail: "1;31", probe.Unknown: "35", probe.Skip: "90",
	}[s]
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func verdictStatus(word string) probe.Status {
	switch word {
	case "healthy":
		return probe.OK
	case "warnings":
		return probe.Warn
	case "fault":
		return probe.Fail
	}
	return probe.Unknown
}
