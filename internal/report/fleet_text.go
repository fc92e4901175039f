package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/probe"
)

// The maximum number of groups in a table, and of node names in a group.
const (
	shownGroups = 5
	shownNodes  = 8
)

// fleetTable is the report of a fleet for people: the groups, each with one example, then the rest.
type fleetTable struct {
	paper
	wide bool
	all  Fleet
}

// newFleetTable returns the sink for a fleet's table. A wide table has a line for each node.
func newFleetTable(w io.Writer, o Options, wide bool) Sink {
	return newFleet(w, func(w io.Writer, all Fleet) error {
		t := fleetTable{paper{o.Colour, o.Width}, wide, all}
		_, err := io.WriteString(w, t.text())
		return err
	})
}

func (t *fleetTable) text() string {
	var b strings.Builder
	all := blocks(t.all.Groups)
	if len(all) > 0 {
		lines := t.screen(probe.Cause{}).wrapped(t.all.answer(all[0]...))
		fmt.Fprintf(&b, "%s\n", strings.Join(lines, "\n"))
	}
	for i, of := range all {
		if i == shownGroups {
			b.WriteString("\n" + t.indented(0, moreGroups(all, i)))
			break
		}
		t.block(&b, of, i)
	}
	if t.wide {
		t.nodes(&b)
	}
	for _, line := range t.all.Log {
		b.WriteString("\n" + t.indented(0, line))
	}
	t.fleetVerdict(&b)
	return strings.TrimLeft(b.String(), "\n")
}

// screen returns the report about a group's example.
func (t *fleetTable) screen(c probe.Cause) screen {
	return screen{Document: Document{Verdict: &probe.Verdict{}, Causes: []probe.Cause{c}}, paper: t.paper}
}

// block writes a block. The first block has the full report about its example. The others have only their evidence and
// fix.
func (t *fleetTable) block(b *strings.Builder, of []probe.Group, at int) {
	s, g := t.screen(probe.Cause{}), of[0]
	if at > 0 {
		lines := s.wrapped(t.all.answer(of...))
		status := confidenceStatus(g.Confidence)
		if g.Example.Result != nil {
			status = g.Example.Result.Status
		}
		count, rest, _ := strings.Cut(lines[0], ":")
		lines[0] = t.paint(status, count) + ":" + rest
		fmt.Fprintf(b, "\n%s", strings.Join(lines, "\n"))
	}
	b.WriteString("\n")
	lines := t.about(s, g)
	switch {
	case g.Example.Cause != nil:
		d := details[2]
		if t.wide {
			d = everything
		}
		s = t.screen(*g.Example.Cause)
		lines = append(append(append(lines, s.evidence(d)...), ""), s.actions(d)...)
	default:
		lines = append(lines, s.items("seen", examples(of), shownGroups, 3)...)
	}
	for _, line := range lines {
		fmt.Fprintln(b, line)
	}
}

// about returns the nodes of a group, and what they have in common.
func (t *fleetTable) about(s screen, g probe.Group) []string {
	var out []string
	for _, p := range particularsOf(g) {
		out = append(out, s.item(p.word, p.text, 3)...)
	}
	return out
}

// particular is a property of a group other than its example.
type particular struct{ word, text string }

func particularsOf(g probe.Group) []particular {
	var out []particular
	if len(g.Nodes) > 1 {
		out = append(out, particular{"nodes", firstNodes(g.Nodes)})
	}
	if c := g.Common; c != nil {
		out = append(out, particular{"common", fmt.Sprintf("%s %s: %d of these %d, and %d of the other %d", c.Attribute,
			c.Value, c.Has, len(g.Nodes), c.Others, c.OthersOf)})
	}
	if len(g.Abouts) > 0 && len(g.Nodes) > 1 {
		out = append(out, particular{"about", strings.Join(g.Abouts, ", ")})
	}
	if len(g.Witnesses) > 0 {
		out = append(out, particular{"seen by", witnesses(g)})
	}
	if len(g.Nodes) > 1 {
		out = append(out, particular{"example", g.Example.Node})
	}
	return out
}

// groupLines returns the lines about a group in a ticket, including those about its example.
func groupLines(g probe.Group, width int) []string {
	var out []string
	for _, p := range particularsOf(g) {
		out = append(out, worded(p.word, []string{p.text}, width)...)
	}
	switch {
	case g.Example.Cause != nil:
		out = append(out, causeLines(*g.Example.Cause, width)...)
	case g.Example.Result != nil:
		out = append(out, worded("seen", []string{named(*g.Example.Result) + ": " + g.Example.Result.Saw}, width)...)
	}
	return out
}

// firstNodes returns the first names and the number of the other names.
func firstNodes(names []string) string {
	text := strings.Join(names[:min(len(names), shownNodes)], ", ")
	if n := len(names) - shownNodes; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// witnesses returns the nodes that observe a fault on a group's nodes, and the failed check.
func witnesses(g probe.Group) string {
	var nodes, causes []string
	for _, w := range g.Witnesses {
		nodes, causes = appendNew(nodes, w.Node), appendNew(causes, cmp.Or(w.Cause, w.Check))
	}
	text := strings.Join(nodes[:min(len(nodes), shownNodes)], ", ")
	switch n := len(nodes) - shownNodes; {
	case n > 0 && g.MoreWitnesses > 0:
		text += fmt.Sprintf(" and more than %d more", n)
	case n > 0:
		text += fmt.Sprintf(" and %d more", n)
	}
	return text + ": " + strings.Join(causes, ", ")
}

// named returns a result's check and target.
func named(r probe.Result) string { return strings.TrimSpace(r.Check + " " + r.Target) }

// nodes writes all nodes, worst first, each with its causes.
func (t *fleetTable) nodes(b *strings.Builder) {
	affected := t.all.affected()
	after := func(n FleetNode) int { // affected nodes follow the nodes at fault
		if n.word(affected) == wordAffected {
			return 1
		}
		return 0
	}
	all := slices.SortedStableFunc(slices.Values(t.all.Nodes), func(x, y FleetNode) int {
		worse := slices.Index(Verdicts(), y.Word) - slices.Index(Verdicts(), x.Word)
		return cmp.Or(worse, after(x)-after(y))
	})
	longest := len("NODE")
	for _, n := range all {
		longest = max(longest, len(printable(n.Node)))
	}
	fmt.Fprintf(b, "\n%-*s  %-10s  CAUSES\n", longest, "NODE", "VERDICT")
	for _, n := range all {
		var causes []string
		for _, c := range n.Causes {
			causes = append(causes, fmt.Sprintf("%s (%s)", strings.TrimSpace(c.ID+" "+c.About), c.Confidence))
		}
		if of := affected[n.Node]; of != "" && len(causes) > 0 && len(n.Unexplained) == 0 {
			causes[0] = "affected by " + of + ": " + causes[0]
		}
		if len(n.Unexplained) > 0 && (len(causes) == 0 || affected[n.Node] != "") {
			causes = []string{n.unexplained(affected)}
		}
		status := verdictStatus(n.Word)
		if after(n) > 0 {
			status = probe.Warn
		}
		word := t.paint(status, fmt.Sprintf("%-10s", n.word(affected)))
		line := fmt.Sprintf("%-*s  %s  %s", longest, printable(n.Node), word, printable(strings.Join(causes, "; ")))
		fmt.Fprintln(b, strings.TrimRight(line, " "))
	}
}

// fleetVerdict writes the last line, which has the number of nodes with each verdict and repeats the first group.
func (t *fleetTable) fleetVerdict(b *strings.Builder) {
	v := t.all.Verdict
	how := ""
	if methods := t.all.methods(); len(methods) > 0 {
		how = " via " + strings.Join(methods, ", ")
	}
	if c := t.all.Cluster; c != nil {
		how += "; cluster " + cmp.Or(c.Context, c.Server)
	}
	word := v.Word
	if len(t.all.Groups) > 0 {
		word += " " + at(t.all.Groups[0])
	}
	text := t.indented(0, fmt.Sprintf("%s: %s%s (%s in %s%s)", word, t.all.leads(), t.all.count(),
		plural(len(t.all.Nodes), "node"), v.Elapsed.Round(100*time.Millisecond), how))
	fmt.Fprint(b, "\n", t.paint(verdictStatus(v.Word), v.Word), strings.TrimPrefix(text, v.Word))
	switch alone := t.all.unasked(); alone {
	case 0:
	case len(t.all.Nodes):
		fmt.Fprintln(b, "only the API was checked, not the nodes")
	default:
		fmt.Fprintf(b, "%s had a probe; %d nodes were checked through the API only\n", plural(len(t.all.Nodes)-alone, "node"), alone)
	}
}

// leads returns the first group and the number of the other groups.
func (f Fleet) leads() string {
	if len(f.Groups) == 0 {
		return ""
	}
	more, all := "", blocks(f.Groups)
	if n := len(all) - 1; n > 0 {
		more = "; " + plural(n, "more finding")
	}
	return printable(title(all[0]...)) + more + "; "
}

// affected returns the nodes that have only symptoms of other nodes' faults, each with one of these faulty nodes.
func (f Fleet) affected() map[string]string {
	out := map[string]string{}
	for _, g := range f.Groups {
		for of, nodes := range g.Affected {
			for _, node := range nodes {
				out[node] = of
			}
		}
	}
	return out
}

// unexplained returns why a node has bad answers but no cause.
func (n FleetNode) unexplained(affected map[string]string) string {
	checks := strings.Join(n.Unexplained, ", ")
	if of := affected[n.Node]; of != "" {
		return "affected by " + of + ": " + checks
	}
	return "no known cause explains " + checks
}

// count returns the number of nodes with each verdict as text, worst first.
func (f Fleet) count() string {
	var parts []string
	for _, c := range f.counts(f.affected()) {
		parts = append(parts, fmt.Sprintf("%d %s", c.N, cmp.Or(stateWords[c.Word], c.Word)))
	}
	if len(parts) == 0 {
		return "no node was judged"
	}
	return strings.Join(parts, ", ")
}

// stateWords are the forms of verdicts in a sentence, if they differ from the verdict.
var stateWords = map[string]string{
	WordFault: "faulty", WordWarnings: "with warnings", wordAffected: "affected by another node's fault",
}

// counts returns the number of nodes with each verdict, worst first. Affected nodes have their own count after the
// faults. Otherwise one dead node would look like thousands of faults.
func (f Fleet) counts(affected map[string]string) []page.Count {
	var out []page.Count
	add := func(n int, word string) {
		if n > 0 {
			out = append(out, page.Count{N: n, Word: word})
		}
	}
	for _, word := range slices.Backward(Verdicts()) {
		more := 0
		for _, node := range f.Nodes {
			if node.word(affected) == wordAffected && node.Word == word {
				more++
			}
		}
		add(f.Verdicts[word]-more, word)
		add(more, wordAffected)
	}
	return out
}

// wordAffected replaces the verdict fault if all of a node's symptoms follow from another node.
const wordAffected = "affected"

// word returns a node's verdict for people.
func (n FleetNode) word(affected map[string]string) string {
	if n.Word == WordFault && affected[n.Node] != "" {
		return wordAffected
	}
	return n.Word
}

// writeFleetMarkdown writes a ticket about several nodes.
func writeFleetMarkdown(w io.Writer, f Fleet) error {
	var b strings.Builder
	at := ""
	if f.Cluster != nil {
		at = " of " + Code(f.Cluster.String())
	}
	fmt.Fprintf(&b, "**%s** on %s%s, %s: %s\n", f.Word, plural(len(f.Nodes), "node"), at,
		f.Time.UTC().Format(time.RFC3339), f.count())
	for i, g := range f.Groups {
		if i == shownGroups {
			fmt.Fprintf(&b, "\n%d more groups are in the JSON report.\n", len(f.Groups)-i)
			break
		}
		fmt.Fprintf(&b, "\n### %s\n\n", Code(f.answer(g)))
		fence(&b, "text", groupLines(g, foldAt))
		if g.Example.Cause != nil {
			markdownFix(&b, g.Example.Cause.Fix)
		}
	}
	if len(f.Log) > 0 {
		fmt.Fprint(&b, "\n")
		fence(&b, "text", f.Log)
	}
	fmt.Fprintf(&b, "\ncalico-probe %s, run %s, via %s, took %v\n", Code(f.Version), Code(f.Run), codes(f.methods()),
		f.Elapsed.Round(100*time.Millisecond))
	_, err := io.WriteString(w, b.String())
	return err
}

// writeFleetNames writes cause/ID for each group with a cause, check/ID for each other group, and node/NAME for each
// unhealthy node. It writes no lines for a healthy fleet.
func writeFleetNames(w io.Writer, f Fleet) error {
	var b strings.Builder
	for _, g := range f.Groups {
		if g.Cause != "" {
			fmt.Fprintln(&b, "cause/"+printable(g.Cause))
		} else {
			fmt.Fprintln(&b, "check/"+printable(g.Check))
		}
	}
	for _, n := range f.Nodes {
		if n.Word != WordHealthy {
			fmt.Fprintln(&b, "node/"+printable(n.Node))
		}
	}
	_, err := io.WriteString(w, b.String()) // even if empty: it replaces the file of an earlier run
	return err
}
