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

// Fleet asks many nodes at once what 'calico-probe run --all-nodes' asks them, and puts those with the same cause
// together. The node of the runbook is not asked anew by it.
type Fleet struct {
	Names    []string `json:"names,omitempty"`    // texts: may hold ${EXPRESSION}; without names and selector all nodes
	Selector string   `json:"selector,omitempty"` // of labels, as kubectl's -l
	Checks   []string `json:"checks,omitempty"`   // as --checks
	Skip     []string `json:"skip,omitempty"`     // as --skip
	Profile  string   `json:"profile,omitempty"`  // as --profile; not beside checks
	// Via is api, which creates nothing, or pod, for a probe on each; "" = api.
	Via string `json:"via,omitempty"`
}

// fleetWays are the values of its Via.
var fleetWays = []string{"api", "pod"}

// Group is nodes of a fleet with the same cause, or with bad answers to the same check that no cause explains.
type Group struct {
	Cause      string   `json:"cause"`      // the ID of the rule, "" = no known cause explains them
	Check      string   `json:"check"`      // the check, where there is no cause
	Confidence string   `json:"confidence"` // of the cause
	Says       string   `json:"says"`       // what is wrong, with the example
	Nodes      []string `json:"nodes"`      // by name
	Of         int      `json:"of"`         // how many nodes were judged
	Common     string   `json:"common"`     // what sets them apart from the others, "" = nothing
	Example    string   `json:"example"`    // the node that stands for them
	Fix        string   `json:"fix"`        // of the example
	Radius     string   `json:"radius"`     // what that touches
	Commands   []string `json:"commands"`   // of the fix; as comments those under a condition
}

// Looked is what a look at many nodes came to.
type Looked struct {
	Nodes    int               `json:"nodes"`
	Verdict  string            `json:"verdict"`
	Counts   map[string]int    `json:"counts"` // how many nodes came to what
	Groups   []Group           `json:"groups"` // what failed first, then the larger one
	More     int               `json:"more,omitempty"`
	Causes   []Cause           `json:"causes"`            // of the examples
	Verdicts map[string]string `json:"verdicts"`          // of each node that is not healthy
	Unasked  string            `json:"unasked,omitempty"` // why not every node was judged, "" where each was
}

// mostGroups bounds what a record has of a fleet in which nothing is alike.
const mostGroups = 50

// looked takes from a run over many nodes what a runbook needs. The error is why it did not come to its end.
func looked(run report.Fleet, err error) Looked {
	out := Looked{Nodes: len(run.Nodes), Verdict: wordIncomplete, Counts: map[string]int{}, Groups: []Group{},
		Causes: []Cause{}, Verdicts: map[string]string{}}
	for _, n := range run.Nodes {
		if out.Counts[n.Word]++; n.Word != wordHealthy {
			out.Verdicts[n.Node] = n.Word
		}
	}
	for _, g := range run.Groups {
		if len(out.Groups) == mostGroups {
			out.More++
			continue
		}
		group := Group{Cause: g.Cause, Check: g.Check, Confidence: string(g.Confidence), Nodes: g.Nodes, Of: g.Of,
			Example: g.Example.Node, Commands: []string{}}
		if c := g.Common; c != nil {
			group.Common = fmt.Sprintf("%s %s: %d of these %d, and %d of the other %d", c.Attribute, c.Value, c.Has,
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
		out.Unasked = probe.Plain(err.Error())
	case run.Verdict == nil:
		out.Unasked = "the run ended without a verdict"
	default:
		out.Verdict = run.Word
	}
	return out
}

// seen is what expressions read of it.
func (l Looked) seen() Seen {
	s := seen()
	s.Groups, s.Causes, s.Verdict, s.Verdicts, s.Lacks = l.Groups, l.Causes, l.Verdict, l.Verdicts, l.Unasked
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

// lookAt looks at many nodes. That they cannot be asked is an answer, unless it is a mistake.
func (w *walk) lookAt(ctx context.Context, f Fleet) (Looked, error) {
	var names []string
	for _, text := range f.Names {
		name, err := w.sight().text(ctx, text)
		if err != nil {
			return Looked{}, w.cannotGoOn("which nodes to ask is not known: " + brief(err.Error()))
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(f.Names) > 0 && len(names) == 0 {
		return looked(report.Fleet{}, errors.New("no node is named")), nil
	}
	f.Names = names
	w.World.Progress("looking at many nodes")
	run, err := w.World.Fleet(ctx, f)
	if ctx.Err() != nil || errors.As(err, new(Mistake)) {
		return Looked{}, cmp.Or(context.Cause(ctx), err)
	}
	return looked(run, err), nil
}

func (l *linter) fleet(at string, f *Fleet, in *scope) {
	l.run(at, &Run{Checks: f.Checks, Skip: f.Skip, Profile: f.Profile}, in)
	l.oneOf(at+".via", "access method of many nodes", f.Via, fleetWays)
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

// String says how many nodes came to what.
func (l Looked) String() string {
	var parts []string
	for _, word := range []string{wordFault, wordIncomplete, wordWarnings, wordHealthy} {
		if n := l.Counts[word]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	return fmt.Sprintf("%d nodes: %s", l.Nodes, cmp.Or(strings.Join(parts, ", "), "none was judged"))
}

// title is what a group is about.
func (g Group) title() string {
	if g.Cause == "" {
		return fmt.Sprintf("%d of %d nodes: %s unexplained", len(g.Nodes), g.Of, g.Check)
	}
	return fmt.Sprintf("%d of %d nodes: %s (%s)", len(g.Nodes), g.Of, g.Cause, g.Confidence)
}

// rest are the lines about a group below its title.
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

// write tells a person of it.
func (l Looked) write(para func(int, string), head string) {
	para(0, fmt.Sprintf("%s: calico-probe judged %s", head, l))
	if l.Unasked != "" {
		para(4, l.Unasked)
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
	if l.Unasked != "" {
		fmt.Fprintf(b, "    - %s\n", report.Code(l.Unasked))
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

// shownBad is how many bad answers stand in texts, of a run and of a cause; the rest is
// in the record's JSON.
const shownBad = 6
