package report

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// table prints one line a result as it arrives, so its columns have fixed
// widths; a longer cell pushes the rest of its line to the right. Unless it is
// wide, it shows what is bad or not known, and of the rest the names: somebody
// reads this at night. The causes come last, next to the prompt.
type table struct {
	w        io.Writer
	colour   bool
	width    int // of the terminal, 0 = lines may have any length
	wide     bool
	family   func(check string) string // of a wide table's rows, nil = they are not grouped
	session  bool                      // options are no hint at its prompt
	head     bool
	begun    string // what it is about, until that is shown
	node     string // the one in question
	ways     []string
	causes   int
	first    *probe.Cause
	compared bool                      // the head of the comparison is shown
	named    map[probe.Status][]string // checks by status, in order
	asked    map[string]bool           // the checks with an answer about the node
	alike    map[string]int            // how many answers of a check with one status there were
	placed   []probe.Result            // how the attempts to place a probe ended
	skipped  int                       // checks with no answer but skip
	waiting  []row                     // of a wide table, until all are known
}

// rows is how many answers of a check with the same status have a line of their own.
const rows = 2

// fewOK is how many checks that are ok are named; of more the number is enough.
const fewOK = 12

const (
	widthStatus = 8
	widthCheck  = 18
	widthTarget = 33
	evidence    = 6 // lines of evidence shown below a result that is not good
)

func newTable(wide bool) func(io.Writer, Options) (Sink, error) {
	return func(w io.Writer, o Options) (Sink, error) {
		if o.Fleet {
			return newFleetTable(w, o, wide), nil
		}
		return &table{w: w, colour: o.Colour, width: o.Width, wide: wide, family: o.Family}, nil
	}
}

func (t *table) Event(ev probe.Event) error {
	var b strings.Builder
	t.node = cmp.Or(t.node, ev.Node)
	switch ev.Type {
	case probe.EventRun:
		if !t.session { // which says so itself
			t.begun = t.indented(0, Head(ev.Node, ev.Start.Cluster, ev.Start.Time))
		}
	case probe.EventStart:
		if ev.Node == t.node {
			t.ways = appendWay(t.ways, ev.Way)
		}
	case probe.EventResult:
		t.result(&b, ev.Node, *ev.Result)
	case probe.EventComparison:
		t.rest(&b)
		t.contrast(&b, ev.Text)
	case probe.EventCause:
		t.rest(&b)
		t.cause(&b, *ev.Cause)
	case probe.EventVerdict:
		t.rest(&b)
		t.verdict(&b, ev)
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(t.w, t.begun+b.String())
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	t.begun = ""
	return nil
}

// result prints an answer, keeps it for later, or notes no more than that there was one.
func (t *table) result(b *strings.Builder, node string, r probe.Result) {
	baseline := node != t.node // asked to compare: what differs is in the comparison
	if !baseline {
		t.note(r)
	}
	switch {
	case t.wide && t.family != nil:
		t.waiting = append(t.waiting, row{node, r})
	case t.wide && baseline:
		r.Target = strings.TrimSpace(node + ": " + r.Target)
		t.row(b, r)
	case t.wide, !baseline && lined(r) && t.room(r):
		t.row(b, r)
	}
}

// contrast prints a line of how the node compares with its baseline nodes; the first is the
// head of the others.
func (t *table) contrast(b *strings.Builder, line string) {
	if !t.compared {
		t.compared = true
		b.WriteString("\n" + t.indented(0, line))
		return
	}
	b.WriteString(t.indented(2, line))
}

// indented are the lines of a text below the margin, no longer than the terminal is wide.
func (t *table) indented(by int, text string) string {
	return strings.Repeat(" ", by) + t.from(by, text) + "\n"
}

// from is a text that begins in a column of a line, and goes on below that.
func (t *table) from(column int, text string) string {
	text = printable(text)
	if t.width == 0 || column+len(text) <= t.width {
		return text
	}
	return strings.Join(probe.Wrap(text, t.width-column), "\n"+strings.Repeat(" ", column))
}

// room tells whether there is a line for one more answer of its kind.
func (t *table) room(r probe.Result) bool {
	if t.alike == nil {
		t.alike = map[string]int{}
	}
	if r.Check == probe.CheckPlaced { // of each way there is one, and the last may be what the reader can mend
		return true
	}
	kind := fmt.Sprintf("%s %s", r.Status, r.Check)
	t.alike[kind]++
	return t.alike[kind] <= rows
}

// quiet tells what only a wide table has a line for.
func quiet(s probe.Status) bool { return s == probe.OK || s == probe.Info || s == probe.Skip }

// lined tells what has a line of its own: what is not good, and what is odd about calico-node,
// as a pod that calls itself so and is ignored.
func lined(r probe.Result) bool {
	return !quiet(r.Status) || r.Status == probe.Info && r.Check == "calico-pod"
}

// note remembers which checks had which answers.
func (t *table) note(r probe.Result) {
	if t.named == nil {
		t.named, t.asked = map[probe.Status][]string{}, map[string]bool{}
	}
	t.asked[r.Check] = true
	if names := t.named[r.Status]; !slices.Contains(names, r.Check) {
		t.named[r.Status] = append(names, r.Check)
	}
	if r.Check == probe.CheckPlaced {
		t.placed = append(t.placed, r)
	}
}

// rest names, once, the checks whose answers had no line; a wide table prints its rows.
func (t *table) rest(b *strings.Builder) {
	for s, names := range notBad(t.named) {
		if s == probe.Skip {
			t.skipped = max(t.skipped, len(names))
		}
	}
	if t.wide {
		t.grouped(b)
	}
	if t.wide || t.named == nil {
		return
	}
	var more []string
	for _, kind := range slices.Sorted(maps.Keys(t.alike)) {
		if n := t.alike[kind] - rows; n > 0 {
			more = append(more, fmt.Sprintf("%d %s", n, kind))
		}
	}
	t.alike = nil
	if len(more) > 0 {
		fmt.Fprintf(b, "%-*s %s\n", widthStatus, "and", t.folded(more, widthStatus+1)+t.hint(", with -o wide",
			": 'run CHECK' shows all of one"))
	}
	for s, names := range notBad(t.named) {
		text := t.folded(names, widthStatus+1)
		if s == probe.OK && len(names) > fewOK {
			text = fmt.Sprintf("%d checks", len(names)) + t.hint(", named with -o wide", "")
		}
		fmt.Fprintf(b, "%s %s\n", t.paint(s, fmt.Sprintf("%-*s", widthStatus, s)), text)
		t.named[s] = nil
	}
}

// notBad are the checks without a bad answer, by status and each once. A check stands under the
// worst of its answers: info is worth reading, so it outranks an ok about another target. A skip
// only says that one target was not asked, so it counts where there is nothing else.
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

// fewer says why a run asked less than its profile has: the probe was placed by another access
// method than the one that was tried first, and checks were skipped. "" where that is not so; a pod
// of its own asks all there is.
func fewer(placed []probe.Result, skipped int) string {
	at := slices.IndexFunc(placed, func(r probe.Result) bool { return r.Status == probe.OK })
	if at <= 0 || skipped == 0 || placed[at].Target == "pod" {
		return ""
	}
	first := placed[0]
	return fmt.Sprintf("fewer checks asked: the probe ran via %s, %s skipped; via %s failed: %s",
		placed[at].Target, plural(skipped, "check"), first.Target, first.Saw)
}

// hint is what more can be asked for by the program's options, or at a session's prompt.
func (t *table) hint(option, prompt string) string {
	if t.session {
		return prompt
	}
	return option
}

// narrowest is how wide a terminal is at least, in columns.
const narrowest = 80

// folded breaks a list of names into lines of the terminal's width, the later ones indented.
func (t *table) folded(names []string, indent int) string {
	lines := probe.Wrap(printable(strings.Join(names, ", ")), cmp.Or(t.width, narrowest)-1-indent)
	return strings.Join(lines, "\n"+strings.Repeat(" ", indent))
}

func (t *table) verdict(b *strings.Builder, ev probe.Event) {
	v := ev.Verdict
	if t.causes > shownCauses {
		fmt.Fprintf(b, "\n%d more causes%s\n", t.causes-shownCauses, t.hint(" with -o json", ": 'save FILE.json' has them"))
	}
	open := slices.SortedStableFunc(slices.Values(v.Unexplained), func(x, y string) int {
		return cmp.Compare(t.badness(x), t.badness(y))
	})
	switch {
	case len(open) == 0:
	case t.causes > 0:
		fmt.Fprint(b, "\n", t.indented(0, "not accounted for: "+strings.Join(open, ", ")))
	default:
		id := probe.Quote(printable(open[0]))
		fmt.Fprint(b, "\n", t.indented(0, "no known cause fits "+strings.Join(open, ", ")+": "+
			t.hint("'calico-probe explain "+id+"' says what usually breaks it, '-o wide' shows all that was seen",
				"'explain "+id+"' says what usually breaks it, 'run "+id+"' asks it again")))
	}
	if text := fewer(t.placed, t.skipped); text != "" {
		fmt.Fprint(b, "\n", t.indented(0, text))
	}
	by := ""
	if len(t.ways) > 0 { // else nobody answered
		by = ", via " + strings.Join(t.ways, " and ")
	}
	text := t.indented(0, fmt.Sprintf("%s: %s%s on node %s (%s in %s%s)",
		v.Word, t.leads(), summary(v.Counts, t.named), ev.Node, answers(v.Counts, len(t.asked)),
		v.Elapsed.Round(100*time.Millisecond), by))
	fmt.Fprint(b, "\n", t.paint(verdictStatus(v.Word), v.Word), strings.TrimPrefix(text, v.Word))
	if v.Word == WordHealthy && slices.Equal(t.ways, []string{"api"}) {
		fmt.Fprintln(b, "only the API was asked, not the node itself")
	}
	if v.Outside != "" {
		fmt.Fprint(b, t.indented(0, notFromOutside(v.Outside)))
	}
}

// notFromOutside says that the verdict has no view from other nodes, and why.
func notFromOutside(why string) string { return "no other node tested this one: " + printable(why) }

// badness orders checks by the worst of their answers about the node: 0 is fail.
func (t *table) badness(check string) int {
	worst := []probe.Status{probe.Fail, probe.Unknown, probe.Warn}
	at := slices.IndexFunc(worst, func(s probe.Status) bool { return slices.Contains(t.named[s], check) })
	if at < 0 {
		return len(worst)
	}
	return at
}

// leads is what the verdict's line begins with: the first cause, which is what the reader came for.
func (t *table) leads() string {
	if t.first == nil {
		return ""
	}
	more := ""
	if t.causes > 1 {
		more = " and " + plural(t.causes-1, "more cause")
	}
	return fmt.Sprintf("%s (%s)%s; ", printable(strings.TrimSpace(t.first.ID+" "+t.first.About)), t.first.Confidence, more)
}

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
	if t.width > 0 && widthStatus+1+len(line) > t.width { // what was seen has lines of its own
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

// printable keeps what a node sent from steering the terminal.
func printable(s string) string {
	return strings.ReplaceAll(probe.Line(s), "\t", " ")
}

func (t *table) paint(s probe.Status, text string) string {
	if !t.colour {
		return text
	}
	return colour(s) + text + uncoloured
}

// uncoloured ends a colour.
const uncoloured = "\x1b[0m"

// colour begins that of a status.
func colour(s probe.Status) string {
	return "\x1b[" + map[probe.Status]string{
		probe.OK: "32", probe.Info: "36", probe.Warn: "33", probe.Fail: "1;31", probe.Unknown: "35", probe.Skip: "90",
	}[s] + "m"
}

// Colours are all that reports write to steer a terminal.
func Colours() []string {
	out := []string{uncoloured}
	for _, s := range probe.Statuses() {
		out = append(out, colour(s))
	}
	return out
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
