package runbook

import (
	"maps"
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/calico-probe/calico-probe/probe"
)

// scope holds what is known at a step on every path to that step.
type scope struct {
	answers  map[string]bool
	steps    map[string][]string // the checks that each run, wait or check may run, by its name
	ran      bool                // there was an earlier run
	included []string            // checks that the last run on the node may have run
	own      []string            // the runbook's own checks since that run
}

func newScope() *scope {
	return &scope{answers: map[string]bool{}, steps: map[string][]string{}}
}

func (s *scope) copy() *scope {
	c := *s
	c.answers, c.steps = maps.Clone(s.answers), maps.Clone(s.steps)
	return &c
}

// join merges the scopes of two paths. Names that are defined on a path that ends the runbook are also kept.
func (s *scope) join(ended bool, other *scope) {
	maps.Copy(s.answers, other.answers)
	maps.Copy(s.steps, other.steps)
	s.ran = s.ran || other.ran
	if ended {
		return
	}
	s.included, s.own = union(s.included, other.included), union(s.own, other.own)
}

// asks adds a run on the node or on other nodes.
func (s *scope) asks(name string, on *Nodes, checks []string) {
	s.ran, s.steps[name] = true, checks
	switch {
	case on == nil:
		s.included, s.own = checks, nil
	case len(on.Names) > 0: // the node may be among them
		s.included = union(s.included, checks)
	}
}

// checks adds the result of a check that the runbook defines.
func (s *scope) checks(name, id string) {
	s.own = union(s.own, []string{id})
	s.steps[name] = []string{id}
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// stepOf returns the step that steps.STEP or steps["STEP"] names, or "" for anything else.
func stepOf(e ast.Expr) string {
	switch e.Kind() {
	case ast.SelectKind:
		if s := e.AsSelect(); s.Operand().Kind() == ast.IdentKind && s.Operand().AsIdent() == "steps" {
			return s.FieldName()
		}
	case ast.CallKind:
		c := e.AsCall()
		if c.FunctionName() != operators.Index || c.Args()[0].Kind() != ast.IdentKind || c.Args()[0].AsIdent() != "steps" ||
			c.Args()[1].Kind() != ast.LiteralKind {
			return ""
		}
		name, _ := c.Args()[1].AsLiteral().Value().(string)
		return name
	}
	return ""
}

// index warns about an item of a list that may be empty. It ignores lists that the runbook filtered itself. For those
// lists, it is better that an action stops than that it continues with an empty name.
func (l *linter) index(line int, of *compiled, c ast.CallExpr) {
	if c.FunctionName() != operators.Index {
		return
	}
	list, name := c.Args()[0], ""
	switch list.Kind() {
	case ast.IdentKind:
		name = list.AsIdent()
	case ast.SelectKind:
		name = list.AsSelect().FieldName()
	}
	kind := of.kindOf(list.ID())
	if name == "" || kind.Kind() != types.ListKind ||
		!slices.ContainsFunc([]*types.Type{causeType, resultType, groupType}, kind.Parameters()[0].IsExactType) {
		return
	}
	l.warnAt(line, "%s may have no such item, which would stop the runbook: use first(%s), which is then empty", name, name)
}

// isAsked warns about the result of a check that no earlier step runs.
func (l *linter) isAsked(line int, c ast.CallExpr, id string, in *scope) {
	if !c.IsMemberFunction() {
		return
	}
	included, by := union(in.included, in.own), "no earlier run includes it"
	if t := c.Target(); t.Kind() != ast.IdentKind || t.AsIdent() != lastSeen {
		step := stepOf(t)
		if step == "" {
			return
		}
		included, by = in.steps[step], "step "+step+" does not run it"
	}
	if !slices.Contains(included, id) {
		l.warnAt(line, "%s has no answer here: %s", id, by)
	}
}

// isAskedAnywhere does the same for an expression that does not name a particular step.
func (l *linter) isAskedAnywhere(line int, id string, in *scope) {
	included := union(in.included, in.own)
	for _, of := range in.steps {
		included = union(included, of)
	}
	if !slices.Contains(included, id) {
		l.warnAt(line, "%s has no answer here: no earlier step runs it", id)
	}
}

// checksOf returns the checks that a run may run.
func (l *linter) checksOf(r *Run) []string {
	ids, err := l.known.Selects(r.Checks, r.Skip, r.Profile)
	if err != nil { // reported elsewhere
		return nil
	}
	return append(ids, probe.CheckPlaced, probe.CheckAnswered)
}
