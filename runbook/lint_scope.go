package runbook

import (
	"maps"
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/calico-probe/calico-probe/probe"
)

// scope is what is known where a step stands, whichever way led there.
type scope struct {
	answers map[string]bool
	steps   map[string][]string // of each run, wait or check by its name: the checks it may ask
	ran     bool                // something was asked before
	asked   []string            // checks that the last run on the node may have asked
	own     []string            // and the runbook's own that may have an answer since
	last    string              // the step of that run, "" = it has no name, or may be another one
	least   map[string]int      // how many items the lists have at least that expressions read
}

func newScope() *scope {
	return &scope{answers: map[string]bool{}, steps: map[string][]string{}, least: map[string]int{}}
}

func (s *scope) copy() *scope {
	c := *s
	c.answers, c.steps, c.least = maps.Clone(s.answers), maps.Clone(s.steps), maps.Clone(s.least)
	return &c
}

// join is where ways meet again. The names on a way that ended the runbook stay known.
func (s *scope) join(ended bool, other *scope) {
	maps.Copy(s.answers, other.answers)
	maps.Copy(s.steps, other.steps)
	s.ran = s.ran || other.ran
	if ended {
		return
	}
	s.asked, s.own = union(s.asked, other.asked), union(s.own, other.own)
	if s.last != other.last {
		s.last = ""
	}
	s.least = fewer(s.least, other.least)
}

// asks is a run that asks the node, or others.
func (s *scope) asks(name string, on *Nodes, checks []string) {
	s.ran, s.steps[name] = true, checks
	switch {
	case on == nil:
		s.asked, s.last, s.own = checks, name, nil
	case len(on.Names) > 0: // the node may be among them, or not
		s.asked, s.last = union(s.asked, checks), ""
	default:
		return
	}
	delete(s.least, "causes")
	delete(s.least, "results")
}

// checks is a check of the runbook's own, whose result comes to the others, or takes the
// place of the one it gave before.
func (s *scope) checks(name, id string) {
	if slices.Contains(s.own, id) {
		s.least["results"] = max(1, s.least["results"])
	} else {
		s.least["results"]++
	}
	s.own = union(s.own, []string{id})
	s.steps[name], s.least["steps."+name+".results"] = []string{id}, 1
}

// learn takes in that a condition was true, or was not.
func (s *scope) learn(c *compiled, truth bool) {
	if c == nil {
		return
	}
	s.least = more(s.least, atLeast(c.tree, truth))
	if n, ok := s.least["causes"]; ok && s.last != "" {
		s.least = more(s.least, map[string]int{"steps." + s.last + ".causes": n})
	}
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

// more is what is known where both are.
func more(a, b map[string]int) map[string]int {
	out := maps.Clone(a)
	for list, n := range b {
		out[list] = max(out[list], n)
	}
	return out
}

// fewer is what is known where either is.
func fewer(a, b map[string]int) map[string]int {
	out := map[string]int{}
	for list, n := range a {
		if n = min(n, b[list]); n > 0 {
			out[list] = n
		}
	}
	return out
}

// atLeast is how many items lists have at least where an expression is true, or is not.
func atLeast(e ast.Expr, truth bool) map[string]int {
	out := map[string]int{}
	if e.Kind() == ast.ComprehensionKind { // exists that is true, all that is not
		c := e.AsComprehension()
		if list := listName(c.IterRange()); list != "" && c.AccuInit().Kind() == ast.LiteralKind && c.AccuInit().AsLiteral() == types.Bool(!truth) {
			out[list] = 1
		}
		return out
	}
	if e.Kind() != ast.CallKind {
		return out
	}
	c := e.AsCall()
	args := c.Args()
	switch op := c.FunctionName(); op {
	case operators.LogicalNot:
		return atLeast(args[0], !truth)
	case operators.LogicalAnd, operators.LogicalOr:
		a, b := atLeast(args[0], truth), atLeast(args[1], truth)
		if (op == operators.LogicalAnd) == truth {
			return more(a, b)
		}
		return fewer(a, b)
	case "cause", "suspected":
		if list := causesOf(c); truth && list != "" {
			out[list] = 1
		}
	case operators.Greater, operators.GreaterEquals, operators.Less, operators.LessEquals, operators.Equals, operators.NotEquals:
		if list, n := sizeOf(args[0]), count(args[1]); list != "" {
			out[list] = leastSize(n, func(size int) bool { return compares(op, size, n) == truth })
		} else if list, n := sizeOf(args[1]), count(args[0]); list != "" {
			out[list] = leastSize(n, func(size int) bool { return compares(op, n, size) == truth })
		}
	}
	return out
}

// count is a number that is written out, -1 = it is none, or more than any list has.
func count(e ast.Expr) int {
	if e.Kind() == ast.LiteralKind {
		if n, ok := e.AsLiteral().Value().(int64); ok && n >= 0 && n < 1000 {
			return int(n)
		}
	}
	return -1
}

// leastSize is the least size of which a comparison with n can hold; 0 where nothing is known.
func leastSize(n int, holds func(size int) bool) int {
	for size := 0; n >= 0 && size <= n+1; size++ {
		if holds(size) {
			return size
		}
	}
	return 0
}

func compares(op string, a, b int) bool {
	switch op {
	case operators.Greater:
		return a > b
	case operators.GreaterEquals:
		return a >= b
	case operators.Less:
		return a < b
	case operators.LessEquals:
		return a <= b
	case operators.Equals:
		return a == b
	}
	return a != b
}

// causesOf is the list that cause() and suspected() look through.
func causesOf(c ast.CallExpr) string {
	if !c.IsMemberFunction() {
		return ""
	}
	if t := c.Target(); t.Kind() == ast.IdentKind && t.AsIdent() == lastSeen {
		return "causes"
	}
	if step := stepOf(c.Target()); step != "" {
		return "steps." + step + ".causes"
	}
	return ""
}

// sizeOf is the list that an expression is the size of, "" = it is none.
func sizeOf(e ast.Expr) string {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != "size" {
		return ""
	}
	if c := e.AsCall(); c.IsMemberFunction() {
		return listName(c.Target())
	}
	return listName(e.AsCall().Args()[0])
}

// listName is how a list is called of which something can be known: causes, results, and
// those of steps.
func listName(e ast.Expr) string {
	lists := []string{"causes", "results"}
	switch e.Kind() {
	case ast.IdentKind:
		if slices.Contains(lists, e.AsIdent()) {
			return e.AsIdent()
		}
	case ast.SelectKind:
		if step := stepOf(e.AsSelect().Operand()); step != "" && slices.Contains(lists, e.AsSelect().FieldName()) {
			return "steps." + step + "." + e.AsSelect().FieldName()
		}
	}
	return ""
}

// stepOf is the step that steps.STEP or steps["STEP"] names, "" = it is something else.
func stepOf(e ast.Expr) string {
	switch e.Kind() {
	case ast.SelectKind:
		if s := e.AsSelect(); s.Operand().Kind() == ast.IdentKind && s.Operand().AsIdent() == "steps" {
			return s.FieldName()
		}
	case ast.CallKind:
		c := e.AsCall()
		if c.FunctionName() != operators.Index || c.Args()[0].Kind() != ast.IdentKind || c.Args()[0].AsIdent() != "steps" || c.Args()[1].Kind() != ast.LiteralKind {
			return ""
		}
		name, _ := c.Args()[1].AsLiteral().Value().(string)
		return name
	}
	return ""
}

// indexes warns of items of a list that need not be there. In CEL a side of && or || that
// has no value does not matter where the other one decides.
func (l *linter) indexes(line int, e ast.Expr, least map[string]int) {
	visit := func(parts ...ast.Expr) {
		for _, p := range parts {
			l.indexes(line, p, least)
		}
	}
	switch e.Kind() {
	case ast.CallKind:
		c := e.AsCall()
		args := c.Args()
		switch op := c.FunctionName(); op {
		case operators.LogicalAnd, operators.LogicalOr:
			l.indexes(line, args[0], more(least, atLeast(args[1], op == operators.LogicalAnd)))
			l.indexes(line, args[1], more(least, atLeast(args[0], op == operators.LogicalAnd)))
			return
		case operators.Conditional:
			visit(args[0])
			l.indexes(line, args[1], more(least, atLeast(args[0], true)))
			l.indexes(line, args[2], more(least, atLeast(args[0], false)))
			return
		case operators.Index:
			if list, n := listName(args[0]), count(args[1]); list != "" && n >= least[list] {
				l.warnAt(line, "%s[%d] may not be there, and a condition with it stops the runbook then: put it behind %s.size() > %d", list, n, list, n)
			}
		}
		if c.IsMemberFunction() {
			visit(c.Target())
		}
		visit(args...)
	case ast.SelectKind:
		visit(e.AsSelect().Operand())
	case ast.ListKind:
		visit(e.AsList().Elements()...)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			visit(entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		visit(c.IterRange(), c.LoopCondition(), c.LoopStep(), c.Result())
	}
}

// isAsked warns of an answer that no step has asked for.
func (l *linter) isAsked(line int, c ast.CallExpr, id string, in *scope) {
	if !c.IsMemberFunction() {
		return
	}
	asked, by := union(in.asked, in.own), "no run before this asks it"
	if t := c.Target(); t.Kind() != ast.IdentKind || t.AsIdent() != lastSeen {
		step := stepOf(t)
		if step == "" {
			return
		}
		asked, by = in.steps[step], "the step "+step+" does not ask it"
	}
	if !slices.Contains(asked, id) {
		l.warnAt(line, "%s has no answer here: %s", id, by)
	}
}

// isAskedAnywhere does so where it is not told of which step the answer is.
func (l *linter) isAskedAnywhere(line int, id string, in *scope) {
	asked := union(in.asked, in.own)
	for _, of := range in.steps {
		asked = union(asked, of)
	}
	if !slices.Contains(asked, id) {
		l.warnAt(line, "%s has no answer here: no step before this asks it", id)
	}
}

// checksOf are the checks that a run may have answers of.
func (l *linter) checksOf(r *Run) []string {
	ids, err := l.known.Selects(r.Checks, r.Skip, r.Profile)
	if err != nil { // which is found elsewhere
		return nil
	}
	return append(ids, probe.CheckPlaced, probe.CheckAnswered)
}
