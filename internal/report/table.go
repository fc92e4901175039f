package report

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// table prints answers in columns with fixed widths. A longer cell pushes the rest of its line to the right.
type table struct {
	paper
	w       io.Writer
	node    string                    // the examined node
	wide    bool                      // bad answers have their evidence
	family  func(check string) string // the rows' group
	head    bool                      // the column names are printed
	waiting []row                     // until the verdict
}

// rows is the maximum number of a check's bad answers with the same status that have their own line in a ticket.
const rows = 2

const (
	widthStatus = 8
	widthCheck  = 18
	widthTarget = 33
	evidence    = 6 // lines of evidence for a bad answer
)

// quiet reports whether only a wide table has a line for a status.
func quiet(s probe.Status) bool { return s == probe.OK || s == probe.Info || s == probe.Skip }

// notBad returns each check without a bad answer once, by the most important status of its answers. info is worth
// reading, so it outranks an ok about another target. skip counts only if it is the only status: it means that one
// target was not checked.
func notBad(named map[probe.Status][]string) iter.Seq2[probe.Status, []string] {
	return func(yield func(probe.Status, []string) bool) {
		shown := slices.Concat(named[probe.Fail], named[probe.Warn], named[probe.Unknown])
		for _, s := range []probe.Status{probe.Info, probe.OK, probe.Skip} {
			names := slices.DeleteFunc(slices.Clone(named[s]), func(id string) bool { return slices.Contains(shown, id) })
			shown = append(shown, names...)
			if len(names) > 0 && !yield(s, names) {
				return
			}
		}
	}
}

// fewer explains why a run has fewer checks than its profile: the first access method failed, and the method that
// placed the probe cannot run some checks. It returns "" if the run has all checks. A probe in a dedicated pod can run
// every check.
func (d Document) fewer() string {
	placed, skipped := d.placed(), d.skippedChecks()
	at := slices.IndexFunc(placed, func(r probe.Result) bool { return r.Status == probe.OK })
	if at <= 0 || skipped == 0 || placed[at].Target == "pod" {
		return ""
	}
	first := placed[0]
	return fmt.Sprintf("fewer checks: the probe ran via %s, %s skipped; via %s failed: %s",
		placed[at].Target, plural(skipped, "check"), first.Target, first.Saw)
}

// notFromOutside explains why the verdict does not include the view from other nodes.
func notFromOutside(why string) string { return "no other node tested this node: " + printable(why) }

func fromOf(r probe.Result) string {
	if r.From == "" {
		return ""
	}
	return "from " + r.From
}

// header prints the names of the columns, once.
func (t *table) header(b *strings.Builder) {
	if !t.head {
		t.head = true
		fmt.Fprintf(b, "%-*s %-*s %-*s  %s\n", widthStatus, "STATUS", widthCheck, "CHECK", widthTarget, "TARGET", "SAW")
	}
}

func (t *table) row(b *strings.Builder, r probe.Result) {
	t.header(b)
	target, check := cmp.Or(strings.TrimSpace(r.Target+" "+fromOf(r)), "-"), printable(r.Check)
	fmt.Fprintf(b, "%s ", t.paint(r.Status, fmt.Sprintf("%-*s", widthStatus, r.Status)))
	line := fmt.Sprintf("%-*s %-*s  %s", widthCheck, check, widthTarget, printable(target), printable(r.Saw))
	if t.width > 0 && widthStatus+1+len(line) > t.columns() { // the observation gets its own lines
		fmt.Fprintf(b, "%-*s %s\n%s", widthCheck, check, t.from(widthStatus+widthCheck+2, target),
			t.indented(widthStatus+1, r.Saw))
	} else {
		fmt.Fprintln(b, line)
	}
	if r.Status == probe.OK || r.Status == probe.Info || !t.wide {
		return
	}
	for i, l := range r.Lines {
		if i == evidence {
			fmt.Fprintf(b, "%*s… %d more with -o json\n", widthStatus+1, "", len(r.Lines)-i)
			break
		}
		fmt.Fprintf(b, "%*s| %s\n", widthStatus+1, "", t.from(widthStatus+3, l))
	}
}

func verdictStatus(word string) probe.Status {
	switch word {
	case WordHealthy:
		return probe.OK
	case WordWarnings:
		return probe.Warn
	case WordFault:
		return probe.Fail
	}
	return probe.Unknown
}

// lined reports whether a result gets a separate line, because it is not good or reports an oddity about calico-node,
// such as an ignored pod with calico-node's name. History does not get a line.
func lined(r probe.Result) bool {
	return !quiet(r.Status) || r.Status == probe.Info && r.Check == "calico-pod" && r.Facts[probe.FactHistory] != true
}
