package runbook

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/calico-probe/calico-probe/probe"
)

// text lints the expressions in a text.
func (l *linter) text(at, text string, in *scope) {
	parts, err := pieces(text)
	if err != nil {
		l.find(at, "%v", err)
		return
	}
	for _, p := range parts {
		if strings.TrimSpace(p.expression) == "" {
			if p.words == "" {
				l.find(at, "${} has no expression; write $${ for a literal ${")
			}
			continue
		}
		c := l.expression(at, p.expression, p.line, in)
		if c != nil && !canBeSaid(c.kind) {
			l.findAt(l.line(at)+p.line, "${%s} is a %s, not a text: name one of its fields", brief(p.expression), c.kind)
		}
	}
}

// condition lints an expression that must be true or false.
func (l *linter) condition(at, text string, in *scope) {
	if strings.TrimSpace(text) == "" {
		l.want(at, text)
		return
	}
	c := l.expression(at, text, 0, in)
	if c != nil && c.kind.Kind() != types.BoolKind && c.kind.Kind() != types.DynKind {
		l.find(at, "%s must be true or false, but this is a %s: %s", field(at), c.kind, brief(text))
	}
}

// expression lints one expression, which begins below lines after the start of its field. If the expression is invalid,
// it returns nil.
func (l *linter) expression(at, text string, below int, in *scope) *compiled {
	c, err := compile(text)
	if bad, ok := errors.AsType[compileError](err); ok {
		l.findAt(l.line(at)+below+bad.line-1, "%s: %s", brief(text), bad.what)
		return nil
	}
	if c.hides() {
		return c
	}
	line := l.line(at) + below
	ast.PreOrderVisit(c.tree, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.SelectKind:
			if s := e.AsSelect(); s.Operand().Kind() == ast.IdentKind {
				l.name(line, s.Operand().AsIdent(), s.FieldName(), in)
			}
		case ast.CallKind:
			l.call(line, c, e.AsCall(), in)
			l.index(line, c, e.AsCall())
		}
	}))
	return c
}

// hides reports whether a local variable, such as the variable in exists(), shadows a global name. The linter then
// skips the expression, because the name may mean either.
func (c *compiled) hides() bool {
	own := false
	ast.PreOrderVisit(c.tree, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			for _, v := range variables {
				own = own || v.Name == e.AsComprehension().IterVar() || v.Name == e.AsComprehension().IterVar2()
			}
		}
	}))
	return own
}

// field returns the field of a result, a cause or a step's results that an expression reads. For anything else it
// returns "", because parameters, answers and facts may have the same names but other values.
func (c *compiled) field(e ast.Expr) string {
	if e.Kind() != ast.SelectKind || c.kindOf(e.AsSelect().Operand().ID()).Kind() != types.StructKind {
		return ""
	}
	return e.AsSelect().FieldName()
}

// call lints the arguments of a function and an index.
func (l *linter) call(line int, of *compiled, c ast.CallExpr, in *scope) {
	args := c.Args()
	if len(args) == 2 && slices.Contains([]string{operators.Equals, operators.NotEquals, operators.In}, c.FunctionName()) {
		l.compared(line, of, args[0], args[1], in)
		l.compared(line, of, args[1], args[0], in)
	}
	if len(args) == 0 || args[len(args)-1].Kind() != ast.LiteralKind {
		return
	}
	id, ok := args[len(args)-1].AsLiteral().Value().(string)
	switch {
	case !ok:
	case c.FunctionName() == operators.Index && args[0].Kind() == ast.IdentKind:
		l.name(line, args[0].AsIdent(), id, in)
	case c.FunctionName() == "cause" || c.FunctionName() == "suspected":
		l.isCause(line, id)
	case c.FunctionName() == "status" || c.FunctionName() == "asked":
		l.isCheck(line, id)
		l.isAsked(line, c, id, in)
	}
}

// words returns an expression's possible values; nil = any value. They include "" if the expression can be empty.
func (l *linter) words(c *compiled, e ast.Expr) []string {
	what, answer := c.field(e), ""
	switch e.Kind() {
	case ast.IdentKind:
		if e.AsIdent() == "verdict" {
			what = "verdict"
		}
	case ast.SelectKind:
		if of := e.AsSelect().Operand(); of.Kind() == ast.IdentKind && of.AsIdent() == "answers" {
			answer = e.AsSelect().FieldName()
		}
	case ast.CallKind:
		if e.AsCall().FunctionName() == "status" {
			what = "status"
		}
	}
	switch what {
	case "verdict":
		return append([]string{""}, verdicts...)
	case "confidence":
		return []string{string(probe.High), string(probe.Medium), string(probe.Low)}
	case "status":
		out := []string{""}
		for _, s := range probe.Statuses() {
			out = append(out, string(s))
		}
		return out
	}
	var out []string
	l.rb.each(func(s *Step) {
		if s.Ask != nil && s.Name == answer && answer != "" && len(s.Ask.Options) > 0 {
			out = append([]string{""}, s.Ask.Options...)
		}
	})
	return out
}

// compared lints literals that are compared with a field if the field's possible values are known.
func (l *linter) compared(line int, c *compiled, field, with ast.Expr, in *scope) {
	words, name := l.words(c, field), c.field(field)
	literals := []ast.Expr{with}
	if with.Kind() == ast.ListKind {
		literals = with.AsList().Elements()
	}
	for _, e := range literals {
		if e.Kind() != ast.LiteralKind {
			continue
		}
		id, ok := e.AsLiteral().Value().(string)
		switch {
		case !ok:
		case words != nil && !slices.Contains(words, id):
			l.findAt(line, "it is never %q%s: possible values are %s", id, Nearest(id, words), strings.TrimPrefix(strings.Join(words, ", "), ", "))
		case id == "": // a cause explains a check or another cause; the other field is empty
		case name == "cause":
			l.isCause(line, id)
		case name == "check":
			l.isCheck(line, id)
			l.isAskedAnywhere(line, id, in)
		}
	}
}

func (l *linter) isCause(line int, id string) {
	if !slices.Contains(l.known.Causes, id) {
		l.findAt(line, "unknown cause %q%s; 'calico-probe causes' lists them", id, Nearest(id, l.known.Causes))
	}
}

func (l *linter) isCheck(line int, id string) {
	if all := slices.Concat(l.known.Checks, l.own); !slices.Contains(all, id) {
		l.findAt(line, "unknown check %q%s; 'calico-probe checks' lists them", id, Nearest(id, all))
	}
}

// name lints a name in params, answers or steps.
func (l *linter) name(line int, of, name string, in *scope) {
	switch of {
	case "params":
		var names []string
		for _, p := range l.rb.Spec.Params {
			names = append(names, p.Name)
		}
		if !slices.Contains(names, name) {
			l.findAt(line, "unknown parameter %s%s", name, Nearest(name, names))
		}
	case "answers":
		if !in.answers[name] || name == "" {
			l.findAt(line, "answers.%s: no earlier ask has that name%s", name, Nearest(name, slices.Sorted(maps.Keys(in.answers))))
		}
	case "steps":
		if _, ok := in.steps[name]; !ok || name == "" {
			l.findAt(line, "steps.%s: no earlier run, wait or check has that name%s", name, Nearest(name, slices.Sorted(maps.Keys(in.steps))))
		}
	}
}
