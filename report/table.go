package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// table prints one line a result as it arrives, so its columns have fixed
// widths; a longer cell pushes the rest of its line to the right. Unless it is
// wide, good results wait for the end of their stream and are one line a check:
// somebody reads this at night.
type table struct {
	w      io.Writer
	colour bool
	wide   bool
	head   bool
	ways   []string
	good   []probe.Result // that wait
	named  map[probe.Status][]string
}

const (
	widthStatus = 8
	widthCheck  = 18
	widthTarget = 33
	evidence    = 6 // lines of evidence shown below a result that is not good
)

func (t *table) Event(ev probe.Event) error {
	var b strings.Builder
	switch ev.Type {
	case probe.EventResult:
		t.ways = appendWay(t.ways, ev.Way)
		t.note(*ev.Result)
		if ev.Result.Status == probe.OK && !t.wide {
			t.good = append(t.good, *ev.Result)
		} else {
			t.row(&b, *ev.Result)
		}
	case probe.EventEnd:
		t.flush(&b)
	case probe.EventVerdict:
		v := ev.Verdict
		t.flush(&b)
		fmt.Fprintf(&b, "\n%s: %s on node %s (%s, by way of %s)\n", t.paint(verdictStatus(v.Word), v.Word), summary(v.Counts, t.named),
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

// note remembers which checks the verdict is about.
func (t *table) note(r probe.Result) {
	if t.named == nil {
		t.named = map[probe.Status][]string{}
	}
	worth := r.Status == probe.Fail || r.Status == probe.Unknown || r.Status == probe.Warn
	if names := t.named[r.Status]; worth && !slices.Contains(names, r.Check) {
		t.named[r.Status] = append(names, r.Check)
	}
}

// flush prints the good results that wait, one line for each check.
func (t *table) flush(b *strings.Builder) {
	count := map[string]int{}
	for _, r := range t.good {
		count[r.Check]++
	}
	for _, r := range t.good {
		switch n := count[r.Check]; n {
		case 0: // told already
		case 1:
			t.row(b, r)
		default:
			first := strings.TrimSpace(r.Target + " " + fromOf(r))
			r.Target, r.From, r.Saw = fmt.Sprintf("%d answers", n), "", "all good, such as "+strings.TrimPrefix(first+": ", ": ")+r.Saw
			t.row(b, r)
		}
		count[r.Check] = 0
	}
	t.good = nil
}

func fromOf(r probe.Result) string {
	if r.From == "" {
		return ""
	}
	return "from " + r.From
}

func (t *table) row(b *strings.Builder, r probe.Result) {
	if !t.head {
		t.head = true
		fmt.Fprintf(b, "%-*s %-*s %-*s  %s\n", widthStatus, "STATUS", widthCheck, "CHECK", widthTarget, "TARGET", "SAW")
	}
	target := cmp.Or(strings.TrimSpace(r.Target+" "+fromOf(r)), "-")
	fmt.Fprintf(b, "%s %-*s %-*s  %s\n", t.paint(r.Status, fmt.Sprintf("%-*s", widthStatus, r.Status)),
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
