package runbook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"

	"github.com/calico-probe/calico-probe/probe"
)

// costLimit is the limit for one evaluation, in CEL's cost units. It corresponds to a few hundred milliseconds. A
// runbook's expression, or a huge result, must not hang the client.
const costLimit = 10_000_000

// Word documents a variable or function of expressions, for the guide.
type Word struct{ Name, Type, Doc string }

// variables lists the variables that expressions can read, in the order of the guide.
var variables = []struct {
	Word
	kind *cel.Type
}{
	{Word{"node", "string", "the node of the runbook"}, cel.StringType},
	{Word{"params", "map of strings", `values of --param, or the defaults: params.NAME, params["a-name"]`}, cel.MapType(cel.StringType, cel.StringType)},
	{Word{"answers", "map of strings", `answer to the ask of a step, "" before it: answers.STEP, answers["a-step"]`}, cel.MapType(cel.StringType, cel.StringType)},
	{Word{"results", "list of results", "results of the last run on the runbook's node, and of the runbook's own checks after it; also results of other nodes about this node, under their names"}, cel.ListType(resultType)},
	{Word{"causes", "list of causes", "causes of the last run, likeliest first; load comes after every other cause above low confidence"}, cel.ListType(causeType)},
	{Word{"verdict", "string", `healthy, warnings, incomplete or fault; "" before the first run`}, cel.StringType},
	{Word{"steps", "map of what steps saw", `results of an earlier run, fleet, wait or check: steps.STEP.results, .causes, .verdict (the worst of its nodes), .verdicts (by node name) and .lacks (why the answer is incomplete); a fleet also has .groups (nodes with the same cause), its .causes are those of the example nodes, and its .verdicts are those of unhealthy nodes only; empty before the step`}, cel.MapType(cel.StringType, seenType)},
}

var (
	seenType   = cel.ObjectType("runbook.Seen")
	resultType = cel.ObjectType("runbook.Result")
	causeType  = cel.ObjectType("runbook.Cause")
	groupType  = cel.ObjectType("runbook.Group")
)

// functions query the node's last results. steps.STEP.FUNCTION(...) queries a step's results.
var functions = []struct {
	Word
	result *cel.Type
	of     func(s Seen, id string) ref.Val
}{
	{Word{"cause", "bool", `cause("ID"): reported with high or medium confidence`}, cel.BoolType, func(s Seen, id string) ref.Val {
		return types.Bool(s.cause(id, probe.High, probe.Medium))
	}},
	{Word{"suspected", "bool", `suspected("ID"): reported with any confidence`}, cel.BoolType, func(s Seen, id string) ref.Val { return types.Bool(s.cause(id)) }},
	{Word{"status", "string", `status("CHECK"): its worst answer on the node: fail, unknown, warn, skip, info or ok; "" if it did not run`}, cel.StringType, func(s Seen, id string) ref.Val {
		return types.String(s.status(id))
	}},
	{Word{"asked", "bool", `asked("CHECK"): it has an answer; skip and unknown are not answers`}, cel.BoolType, func(s Seen, id string) ref.Val { return types.Bool(s.answered(id)) }},
}

// asJSON formats a text for a JSON document. Without it, a quote in a node's text would break the document.
var asJSON = Word{"json", "string", `json(TEXT): the text as a quoted JSON string, for the body of a webhook`}

// first returns the first item of a list. It never fails, so a condition needs no check for an empty list.
var first = Word{"first", "cause, result or group", `first(causes), first(results), first(steps.STEP.groups): the first item of the list; for an empty list, an item with empty fields`}

// firstOf implements first() for lists of one type. empty returns the result for an empty list.
func firstOf(kind *cel.Type, empty func() ref.Val) cel.FunctionOpt {
	return cel.Overload("first_"+kind.TypeName(), []*cel.Type{cel.ListType(kind)}, kind,
		cel.UnaryBinding(func(v ref.Val) ref.Val {
			list, ok := v.(traits.Lister)
			if !ok {
				return types.MaybeNoSuchOverloadErr(v)
			}
			if list.Size() == types.IntZero {
				return empty()
			}
			return list.Get(types.IntZero)
		}))
}

// Words returns the variables and functions that expressions can use, and the fields of results, causes and groups.
func Words() (vars, funcs []Word, results, causes, groups []string) {
	for _, v := range variables {
		vars = append(vars, v.Word)
	}
	for _, f := range functions {
		funcs = append(funcs, f.Word)
	}
	funcs = append(funcs, first, asJSON)
	causes = slices.Concat(fieldsOf(reflect.TypeFor[Cause]()), fieldsOf(reflect.TypeFor[probe.Cause]()))
	return vars, funcs, fieldsOf(reflect.TypeFor[Result]()), causes, fieldsOf(reflect.TypeFor[Group]())
}

// lastSeen is the variable that functions without a step use. Because of the @, runbooks cannot name it.
const lastSeen = "@seen"

// language is the CEL environment of every expression.
var language = sync.OnceValues(func() (*cel.Env, error) {
	var env *cel.Env
	empty := func(v any) func() ref.Val { return func() ref.Val { return env.CELTypeAdapter().NativeToValue(v) } }
	options := []cel.EnvOption{
		ext.NativeTypes(reflect.TypeFor[Seen](), ext.ParseStructTag("json")),
		ext.Strings(), ext.Lists(),
		cel.Variable(lastSeen, seenType),
		cel.Function(first.Name, firstOf(causeType, empty(Cause{})), firstOf(resultType, empty(Result{})),
			firstOf(groupType, empty(Group{}))),
	}
	options = append(options, cel.Function(asJSON.Name,
		cel.Overload("json_string", []*cel.Type{cel.StringType}, cel.StringType, cel.UnaryBinding(func(v ref.Val) ref.Val {
			b, err := json.Marshal(probe.Plain(string(v.(types.String))))
			if err != nil {
				return types.NewErr("%v", err)
			}
			return types.String(b)
		}))))
	for _, v := range variables {
		options = append(options, cel.Variable(v.Name, v.kind))
	}
	for _, f := range functions {
		options = append(options,
			cel.Function(f.Name, cel.MemberOverload("seen_"+f.Name, []*cel.Type{seenType, cel.StringType}, f.result,
				cel.BinaryBinding(func(of, id ref.Val) ref.Val {
					s, ok := of.Value().(Seen)
					if !ok {
						return types.NewErr("%s needs results, but that step has none", f.Name)
					}
					return f.of(s, string(id.(types.String)))
				}))),
			cel.Macros(cel.GlobalMacro(f.Name, 1,
				func(h cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
					return h.NewMemberCall(f.Name, h.NewIdent(lastSeen), args[0]), nil
				})))
	}
	var err error
	env, err = cel.NewEnv(options...)
	return env, err
})

// compiled is an expression that was type-checked and can be evaluated.
type compiled struct {
	text    string
	program cel.Program
	tree    ast.Expr
	kind    *cel.Type
	kindOf  func(id int64) *cel.Type // type of each node in the tree
}

// compileError is an error in an expression, with its line, counted from 1.
type compileError struct {
	line int
	what string
}

func (e compileError) Error() string { return e.what }

// compile checks an expression. Any error is a compileError.
func compile(text string) (*compiled, error) {
	env, err := language()
	if err != nil {
		return nil, compileError{1, err.Error()}
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		return nil, compileError{max(1, first.Location.Line()), strings.Join(strings.Fields(first.Message), " ")}
	}
	program, err := env.Program(checked, cel.CostLimit(costLimit), cel.InterruptCheckFrequency(100))
	if err != nil {
		return nil, compileError{1, err.Error()}
	}
	return &compiled{text, program, checked.NativeRep().Expr(), checked.OutputType(), checked.NativeRep().GetType}, nil
}

// sight holds everything that an expression can currently read.
type sight struct {
	node            string
	params, answers map[string]string
	last            Seen
	steps           map[string]Seen
}

func (s sight) variables() map[string]any {
	return map[string]any{
		"node": s.node, "params": s.params, "answers": s.answers, "results": s.last.Results, "causes": s.last.Causes,
		"verdict": s.last.Verdict, "steps": s.steps, lastSeen: s.last,
	}
}

// value evaluates an expression.
func (s sight) value(ctx context.Context, text string) (ref.Val, error) {
	c, err := compile(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", brief(text), err)
	}
	v, _, err := c.program.ContextEval(ctx, s.variables())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", brief(text), err)
	}
	return v, nil
}

// holds evaluates a condition.
func (s sight) holds(ctx context.Context, text string) (bool, error) {
	v, err := s.value(ctx, text)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("%s: not true or false", brief(text))
	}
	return bool(b), nil
}

// brief returns an expression on one line.
func brief(text string) string { return strings.Join(strings.Fields(text), " ") }

// piece is a part of a text: literal words, or an expression whose value is inserted.
type piece struct {
	words, expression string
	line              int // line in the text, from 0
}

var errUnclosed = errors.New("has a ${ without a closing }; write $${ for a literal ${")

// pieces splits a text into literals and expressions.
func pieces(text string) ([]piece, error) {
	var out []piece
	var words strings.Builder
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "$${"):
			words.WriteString("${")
			i += 3
		case strings.HasPrefix(text[i:], "${"):
			n := closing(text[i+2:])
			if n < 0 {
				return nil, errUnclosed
			}
			if words.Len() > 0 {
				out = append(out, piece{words: words.String()})
				words.Reset()
			}
			out = append(out, piece{expression: text[i+2 : i+2+n], line: strings.Count(text[:i], "\n")})
			i += 3 + n
		default:
			words.WriteByte(text[i])
			i++
		}
	}
	if words.Len() > 0 {
		out = append(out, piece{words: words.String()})
	}
	return out, nil
}

// closing returns the index of the brace that ends an expression, or -1 if there is none. It skips braces in strings
// and in maps.
func closing(text string) int {
	depth, quote := 0, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '{':
			depth++
		case c == '}' && depth == 0:
			return i
		case c == '}':
			depth--
		}
	}
	return -1
}

// text inserts the values of expressions into a text. It cleans texts from nodes and people, so they cannot control the
// terminal.
func (s sight) text(ctx context.Context, text string) (string, error) {
	return s.fill(ctx, text, func(err error) (string, error) { return "", err })
}

// say does the same as text for texts that people read. If an expression cannot be evaluated, say inserts the error
// message instead, because a note must not end the runbook.
func (s sight) say(ctx context.Context, text string) string {
	out, err := s.fill(ctx, text, func(err error) (string, error) { return "(nothing: " + brief(err.Error()) + ")", nil })
	if err != nil {
		return text
	}
	return out
}

func (s sight) fill(ctx context.Context, text string, without func(error) (string, error)) (string, error) {
	parts, err := pieces(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", brief(text), err)
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.words)
		if p.expression == "" {
			continue
		}
		said := ""
		if v, err := s.value(ctx, p.expression); err != nil {
			if said, err = without(err); err != nil {
				return "", err
			}
		} else {
			said = inWords(v)
		}
		b.WriteString(probe.Plain(said))
	}
	return b.String(), nil
}

// inWords formats a value for a text.
func inWords(v ref.Val) string {
	if list, ok := v.(traits.Lister); ok {
		var parts []string
		for it := list.Iterator(); it.HasNext() == types.True; {
			parts = append(parts, inWords(it.Next()))
		}
		return strings.Join(parts, ", ")
	}
	if text, ok := v.ConvertToType(types.StringType).(types.String); ok {
		return string(text)
	}
	return fmt.Sprint(v.Value())
}

// canBeSaid reports whether values of a type can be shown in a message.
func canBeSaid(t *cel.Type) bool {
	if t.Kind() == types.ListKind {
		return canBeSaid(t.Parameters()[0])
	}
	switch t.Kind() {
	case types.StringKind, types.IntKind, types.UintKind, types.DoubleKind, types.BoolKind, types.DynKind,
		types.DurationKind, types.TimestampKind:
		return true
	}
	return false
}

// fieldsOf returns the JSON names of a type's fields, in order.
func fieldsOf(t reflect.Type) []string {
	var out []string
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			out = append(out, name)
		}
	}
	return out
}
