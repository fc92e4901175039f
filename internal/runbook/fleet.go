package runbook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
)

// Fleet examines many nodes as 'calico-probe run --all-nodes' does, and groups those with the same cause. It does not
// replace the last results of the runbook's node.
type Fleet struct {
	Names    []string `json:"names,omitempty"`    // templates with ${EXPRESSION}; no names, no selector = all nodes
	Selector string   `json:"selector,omitempty"` // label selector, same syntax as kubectl's -l
	Checks   []string `json:"checks,omitempty"`   // same as --checks
	Skip     []string `json:"skip,omitempty"`     // same as --skip
	Profile  string   `json:"profile,omitempty"`  // same as --profile; excludes checks
	// Via is api, which creates nothing, or pod, which places a probe on each node; "" = api.
	Via string `json:"via,omitempty"`
}

// fleetMethods are the values of a fleet's Via.
var fleetMethods = []string{"api", "pod"}

// Group is a set of nodes with the same cause, or with bad results of the same check that no cause explains.
type Group struct {
	Cause      string   `json:"cause"`      // ID of the cause; "" = no known cause explains them
	Check      string   `json:"check"`      // the check, if there is no cause
	Confidence string   `json:"confidence"` // of the cause
	Says       string   `json:"says"`       // what is wrong, on the example node
	Nodes      []string `json:"nodes"`      // their names
	Of         int      `json:"of"`         // number of judged nodes
	Common     string   `json:"common"`     // what distinguishes them from the other nodes; "" = nothing
	Example    string   `json:"example"`    // the node that represents the group
	Fix        string   `json:"fix"`        // of the example node
	Radius     string   `json:"radius"`     // what the fix touches
	Commands   []string `json:"commands"`   // commands of the fix; conditional commands are comments
}

// Looked is the outcome of a fleet step.
type Looked struct {
	Nodes    int               `json:"nodes"`
	Verdict  string            `json:"verdict"`
	Counts   map[string]int    `json:"counts"` // number of nodes by verdict
	Groups   []Group           `json:"groups"` // failures first, then by size
	More     int               `json:"more,omitempty"`
	Causes   []Cause           `json:"causes"`            // causes of the example nodes
	Verdicts map[string]string `json:"verdicts"`          // verdict of each unhealthy node
	Lacks    string            `json:"unasked,omitempty"` // why some nodes were not judged; "" if all were
}

// maxGroups is the maximum number of groups in a record. In some clusters every node may have a different cause.
const maxGroups = 50

// looked converts a run over many nodes for the record. err is the reason why the run did not finish.
func looked(run report.Fleet, err error) Looked {
	out := Looked{Nodes: len(run.Nodes), Verdict: wordIncomplete, Counts: map[string]int{}, Groups: []Group{},
		Causes: []Cause{}, Verdicts: map[string]string{}}
	for _, n := range run.Nodes {
		if out.Counts[n.Word]++; n.Word != wordHealthy {
			out.Verdicts[n.Node] = n.Word
		}
	}
	for _, g := range run.Groups {
		if len(out.Groups) == maxGroups {
			out.More++
			continue
		}
		group := Group{Cause: g.Cause, Check: g.Check, Confidence: string(g.Confidence), Nodes: g.Nodes, Of: g.Of,
			Example: g.Example.Node, Commands: []string{}}
		if c := g.Common; c != nil {
			group.Common = fmt.Sprintf("%s %s: %d of these %d nodes, %d of the other %d", c.Attribute, c.Value, c.Has,
				len(g.Nodes), c.Others, c.OthersOf)
		}
		if c := g.Example.Cause; c != nil {
			group.Says, group.Fix, group.Radius, group.Commands = c.Says, c.Fix.Says, c.Fix.Radius, copyable(c.Fix)
			out.Causes = append(out.Causes, Cause{g.Example.Node, *c, group.Commands})
		} else if r := g.Example.Result; r != nil {
			group.Says = strings.TrimSpace(r.Check+" "+r.Target) + ": " + r.Saw
		}
		out.Groups = append(out.Groups, group)
	}
	switch {
	case err != nil:
		out.Lacks = probe.Plain(err.Error())
	case run.Verdict == nil:
		out.Lacks = "the run ended without a verdict"
	default:
		out.Verdict = run.Word
	}
	return out
}

// seen returns the part of it that expressions can read.
func (l Looked) seen() Seen {
	s := seen()
	s.Groups, s.Causes, s.Verdict, s.Verdicts, s.Lacks = l.Groups, l.Causes, l.Verdict, l.Verdicts, l.Lacks
	return s
}

func (w *walk) fleet(ctx context.Context, e *Entry, s *Step) error {
	out, at, err := effect(w, e.Step, s.Name, func() (Looked, error) { return w.lookAt(ctx, *s.Fleet) })
	if err != nil {
		return err
	}
	e.At, e.Fleet = at, &out
	if s.Name != "" {
		w.steps[s.Name] = out.seen()
	}
	w.answered = w.answered || out.Nodes > out.Counts[wordIncomplete]
	return nil
}

// lookAt examines many nodes. If they cannot be examined, that is also an answer, unless the input was wrong.
func (w *walk) lookAt(ctx context.Context, f Fleet) (Looked, error) {
	var names []string
	for _, text := range f.Names {
		name, err := w.sight().text(ctx, text)
		if err != nil {
			return Looked{}, w.cannotGoOn("cannot select the nodes: " + brief(err.Error()))
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(f.Names) > 0 && len(names) == 0 {
		return looked(report.Fleet{}, errors.New("no node is selected")), nil
	}
	f.Names = names
	w.World.Progress("checking many nodes")
	run, err := w.World.Fleet(ctx, f)
	if ctx.Err() != nil || errors.As(err, new(Mistake)) {
		return Looked{}, cmp.Or(context.Cause(ctx), err)
	}
	return looked(run, err), nil
}

func (l *linter) fleet(at string, f *Fleet, in *scope) {
	l.run(at, &Run{Checks: f.Checks, Skip: f.Skip, Profile: f.Profile}, in)
	l.oneOf(at+".via", "access method for several nodes", f.Via, fleetMethods)
	if len(f.Names) > 0 && f.Selector != "" {
		l.find(at, "a fleet takes names or a selector, or neither for all nodes")
	}
	for i, n := range f.Names {
		l.want(fmt.Sprintf("%s.names[%d]", at, i), n)
		l.text(fmt.Sprintf("%s.names[%d]", at, i), n, in)
	}
	if len(f.Checks) == 0 {
		return
	}
	if _, err := l.known.Together(*f); err != nil {
		l.find(at+".checks", "%v", err)
	}
}

// String returns the number of nodes by verdict.
func (l Looked) String() string {
	var parts []string
	for _, word := range []string{wordFault, wordIncomplete, wordWarnings, wordHealthy} {
		if n := l.Counts[word]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	return fmt.Sprintf("%d nodes: %s", l.Nodes, cmp.Or(strings.Join(parts, ", "), "none judged"))
}

// title describes a group in one line.
func (g Group) title() string {
	if g.Cause == "" {
		return fmt.Sprintf("%d of %d nodes: %s unexplained", len(g.Nodes), g.Of, g.Check)
	}
	return fmt.Sprintf("%d of %d nodes: %s (%s)", len(g.Nodes), g.Of, g.Cause, g.Confidence)
}

// rest returns the lines below a group's title.
func (g Group) rest() []string {
	const shown = 8
	nodes := strings.Join(g.Nodes[:min(len(g.Nodes), shown)], ", ")
	if n := len(g.Nodes) - shown; n > 0 {
		nodes += fmt.Sprintf(" and %d more", n)
	}
	out := []string{nodes}
	if g.Common != "" {
		out = append(out, "in common: "+g.Common)
	}
	return append(out, "on "+g.Example+": "+g.Says)
}

// write prints the outcome for a person.
func (l Looked) write(para func(int, string), head string) {
	para(0, fmt.Sprintf("%s: calico-probe judged %s", head, l))
	if l.Lacks != "" {
		para(4, l.Lacks)
	}
	for _, g := range l.Groups[:min(len(l.Groups), shownBad)] {
		para(4, g.title())
		for _, line := range g.rest() {
			para(6, line)
		}
	}
	if n := len(l.Groups) + l.More - shownBad; n > 0 {
		para(4, fmt.Sprintf("and %d more groups", n))
	}
}

func (l Looked) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n  - **%s** of %s\n", l.Verdict, report.Code(l.String()))
	if l.Lacks != "" {
		fmt.Fprintf(b, "    - %s\n", report.Code(l.Lacks))
	}
	for _, g := range l.Groups[:min(len(l.Groups), shownBad)] {
		fmt.Fprintf(b, "    - %s\n", report.Code(g.title()))
		for _, line := range g.rest() {
			fmt.Fprintf(b, "      - %s\n", report.Code(line))
		}
	}
	if n := len(l.Groups) + l.More - shownBad; n > 0 {
		fmt.Fprintf(b, "    - and %d more groups\n", n)
	}
}

// shownBad is the maximum number of bad results that a text shows, per run and per cause. The record's JSON has all of
// them.
const shownBad = 6
