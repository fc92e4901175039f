package runbook

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"github.com/prometheus/alertmanager/pkg/labels"

	"github.com/calico-probe/calico-probe/probe"
)

// Known is what the program has that a runbook may name.
type Known struct {
	Causes   []string
	Checks   []string                      // IDs a result can have
	Selects  func(patterns []string) error // what --checks says of these
	Ways     []string
	Profiles []string
}

var (
	kebab     = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	paramName = regexp.MustCompile(`^[a-z][a-z0-9]*([-_][a-z0-9]+)*$`)
	envName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	verdicts  = []string{wordHealthy, wordWarnings, wordFault, wordIncomplete} // a runbook can conclude
)

// leastEvery is the shortest pause between two attempts of a wait.
var leastEvery = 5 * time.Second

// linter holds a runbook to what can be known before it runs.
type linter struct {
	file     string
	known    Known
	lines    map[string]int // of each field, by its path: spec.steps[0].run
	findings []Finding

	rb       *Runbook
	names    []string // of steps, wherever
	branches []string
	own      []string // IDs of the runbook's own checks
}

func (l *linter) find(path, format string, args ...any) {
	l.findAt(l.line(path), format, args...)
}

func (l *linter) findAt(line int, format string, args ...any) {
	l.findings = append(l.findings, Finding{l.file, line, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")})
}

// line is that of a field, or of what lacks it.
func (l *linter) line(path string) int {
	for {
		if n := l.lines[path]; n > 0 {
			return n
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return max(1, l.lines[""])
		}
		path = path[:cut]
	}
}

// scope is what exists where a step stands.
type scope struct {
	answers, steps map[string]bool
	ran            bool // something was asked of the node
}

func (s scope) copy() scope { return scope{maps.Clone(s.answers), maps.Clone(s.steps), s.ran} }

func (l *linter) lint(rb *Runbook) {
	l.rb = rb
	if rb.APIVersion != APIVersion {
		l.find("apiVersion", "apiVersion is to be %s, not %q", APIVersion, rb.APIVersion)
	}
	if rb.Kind != Kind {
		l.find("kind", "kind is to be %s, not %q", Kind, rb.Kind)
	}
	l.isKebab("metadata.name", rb.Metadata.Name)
	l.want("spec.title", rb.Spec.Title)
	for i, a := range rb.Spec.Alerts {
		at := fmt.Sprintf("spec.alerts[%d]", i)
		if slices.Contains(rb.Spec.Alerts[:i], a) {
			l.find(at, "the alert %q stands twice", a)
		}
		if _, _, err := Alert(a); err != nil {
			l.find(at, "%v", err)
		}
	}
	var params []string
	for i, p := range rb.Spec.Params {
		at := fmt.Sprintf("spec.params[%d]", i)
		switch {
		case !paramName.MatchString(p.Name):
			l.find(at+".name", "%q is no name of a parameter: lower-case letters, digits, - and _", p.Name)
		case slices.Contains(params, p.Name):
			l.find(at+".name", "the parameter %s stands twice", p.Name)
		case slices.ContainsFunc(params, func(other string) bool { return inEnvironment(other) == inEnvironment(p.Name) }):
			l.find(at+".name", "the parameter %s is %s to commands, as another one is", p.Name, inEnvironment(p.Name))
		}
		params = append(params, p.Name)
	}
	if len(rb.Spec.Steps) == 0 {
		l.find("spec.steps", "there is no step")
	}
	rb.each(func(s *Step) {
		if s.Check != nil {
			l.own = append(l.own, s.Check.ID)
		}
	})
	l.steps("spec.steps", rb.Spec.Steps, &scope{map[string]bool{}, map[string]bool{}, false})
}

// Alert takes apart what a runbook names of alerts: a name, and matchers of other labels as
// Alertmanager writes them, as NAME{pod=~"calico-node-.+"}.
func Alert(text string) (name string, matchers []*labels.Matcher, err error) {
	name, rest, some := strings.Cut(text, "{")
	if name = strings.TrimSpace(name); name == "" {
		return "", nil, fmt.Errorf("the alert %q has no name", text)
	}
	if !some {
		return name, nil, nil
	}
	if matchers, err = labels.ParseMatchers("{" + rest); err != nil {
		return "", nil, fmt.Errorf(`%s: %w: write NAME{LABEL="VALUE"}`, text, err)
	}
	return name, matchers, nil
}

// each calls f with every step, wherever it stands.
func (rb *Runbook) each(f func(*Step)) {
	var walk func(steps []Step)
	walk = func(steps []Step) {
		for i := range steps {
			f(&steps[i])
			for _, b := range steps[i].Choose {
				walk(b.Steps)
			}
		}
	}
	walk(rb.Spec.Steps)
}

// steps lints steps in their order, and tells whether they always end the runbook.
func (l *linter) steps(at string, steps []Step, in *scope) (ends bool) {
	for i := range steps {
		here := fmt.Sprintf("%s[%d]", at, i)
		if ends {
			l.find(here, "is never reached: the runbook has ended before it")
			return true
		}
		ends = l.step(here, &steps[i], in)
	}
	return ends
}

// kinds are the fields of a step that say what it does.
func kinds() []string {
	return slices.DeleteFunc(fieldsOf(reflect.TypeFor[Step]()), func(f string) bool { return f == "name" || f == "when" })
}

// kind is what a step does: the names of the fields that are set.
func (s *Step) kind() (set []string) {
	v := reflect.ValueOf(s).Elem()
	for f, value := range v.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); slices.Contains(kinds(), name) && !value.IsZero() {
			set = append(set, name)
		}
	}
	return set
}

func (l *linter) step(at string, s *Step, in *scope) (ends bool) {
	switch set := s.kind(); len(set) {
	case 1:
	case 0:
		l.find(at, "the step does nothing: give it one of %s", strings.Join(kinds(), ", "))
		return false
	default:
		l.find(at, "the step does several things (%s): make a step of each", strings.Join(set, ", "))
		return false
	}
	if s.Name != "" {
		l.isKebab(at+".name", s.Name)
		if slices.Contains(l.names, s.Name) {
			l.find(at+".name", "the name %s stands twice", s.Name)
		}
		l.names = append(l.names, s.Name)
	}
	if s.When != "" {
		l.condition(at+".when", s.When, in)
	}
	switch {
	case s.Run != nil:
		l.run(at+".run", s.Run, in)
		in.ran, in.steps[s.Name] = true, true
	case s.Check != nil:
		l.check(at+".check", s.Check, in)
		in.steps[s.Name] = true
	case s.Note != "":
		l.text(at+".note", s.Note, in)
	case s.Ask != nil:
		l.ask(at, s, in)
		in.answers[s.Name] = true
	case s.Assert != nil:
		l.condition(at+".assert.that", s.Assert.That, in)
		l.want(at+".assert.else", s.Assert.Else)
		l.text(at+".assert.else", s.Assert.Else, in)
	case s.Wait != nil:
		l.wait(at+".wait", s, in)
		in.ran, in.steps[s.Name] = true, true
	case s.Notify != nil:
		l.notify(at+".notify", s.Notify, in)
	case s.Action != nil:
		l.action(at, s, in)
	case s.Conclude != nil:
		c := s.Conclude
		switch {
		case c.Verdict == "" && !in.ran:
			l.find(at+".conclude", "without a verdict it concludes that of the last run, and nothing was run before: give it one of %s", strings.Join(verdicts, ", "))
		case c.Verdict != "" && !slices.Contains(verdicts, c.Verdict):
			l.find(at+".conclude.verdict", "a runbook concludes %s, not %q", strings.Join(verdicts, ", "), c.Verdict)
		}
		l.want(at+".conclude.says", c.Says)
		l.text(at+".conclude.says", c.Says, in)
		l.text(at+".conclude.next", c.Next, in)
		return s.When == ""
	default:
		return l.choose(at+".choose", s.Choose, in) && s.When == ""
	}
	return false
}

func (l *linter) choose(at string, branches []Branch, in *scope) (ends bool) {
	if len(branches) == 0 {
		l.find(at, "there is no branch")
	}
	after := in.copy()
	ends = true
	for i, b := range branches {
		here := fmt.Sprintf("%s[%d]", at, i)
		l.isKebab(here+".name", b.Name)
		if slices.Contains(l.branches, b.Name) {
			l.find(here+".name", "the branch %s stands twice", b.Name)
		}
		l.branches = append(l.branches, b.Name)
		last := i == len(branches)-1
		if b.When == "" && !last {
			l.find(here, "only the last branch may lack when: those below it are never taken")
		}
		if b.When != "" {
			l.condition(here+".when", b.When, in)
		}
		inside := in.copy()
		ended := l.steps(here+".steps", b.Steps, &inside)
		ends = ends && ended && (!last || b.When == "")
		maps.Copy(after.answers, inside.answers)
		maps.Copy(after.steps, inside.steps)
		after.ran = after.ran || inside.ran
	}
	*in = after
	return ends
}

func (l *linter) run(at string, r *Run, in *scope) {
	if len(r.Checks) > 0 && r.Profile != "" {
		l.find(at+".profile", "checks names the checks itself: leave out profile, or checks")
	}
	for _, list := range []struct {
		at       string
		patterns []string
	}{{at + ".checks", r.Checks}, {at + ".skip", r.Skip}} {
		for i, p := range list.patterns {
			if err := l.known.Selects([]string{p}); err != nil {
				l.find(fmt.Sprintf("%s[%d]", list.at, i), "%v", err)
			}
		}
	}
	l.oneOf(at+".profile", "profile", r.Profile, l.known.Profiles)
	l.oneOf(at+".via", "way", r.Via, l.known.Ways)
	if r.On == nil {
		return
	}
	set := 0
	for _, is := range []bool{len(r.On.Names) > 0, r.On.Selector != "", r.On.Others != 0} {
		if is {
			set++
		}
	}
	if set != 1 || r.On.Others < 0 {
		l.find(at+".on", "on takes exactly one of names, selector, others")
	}
	for i, n := range r.On.Names {
		l.want(fmt.Sprintf("%s.on.names[%d]", at, i), n)
		l.text(fmt.Sprintf("%s.on.names[%d]", at, i), n, in)
	}
}

func (l *linter) oneOf(at, what, typed string, known []string) {
	if typed != "" && !slices.Contains(known, typed) {
		l.find(at, "unknown %s %q%s: there is %s", what, typed, Nearest(typed, known), strings.Join(known, ", "))
	}
}

func (l *linter) check(at string, c *Check, in *scope) {
	l.isKebab(at+".id", c.ID)
	if slices.Contains(l.known.Checks, c.ID) {
		l.find(at+".id", "%s is a check of the program: choose another ID", c.ID)
	}
	l.want(at+".asks", c.Asks)
	if (len(c.Command) > 0) == (c.That != "") {
		l.find(at, "a check is answered by a command or by that: exactly one of them")
	}
	l.command(at+".command", c.Command, in)
	if c.That != "" {
		l.condition(at+".that", c.That, in)
		l.want(at+".saw", c.Saw)
	} else if c.Saw != "" {
		l.find(at+".saw", "what a command saw is its first line: leave saw out")
	}
	l.text(at+".saw", c.Saw, in)
}

func (l *linter) ask(at string, s *Step, in *scope) {
	if s.Name == "" {
		l.find(at, "an ask needs a name, for --answer NAME=TEXT and answers.NAME")
	}
	l.want(at+".ask.question", s.Ask.Question)
	l.text(at+".ask.question", s.Ask.Question, in)
	if d := s.Ask.Default; d != nil && len(s.Ask.Options) > 0 && !slices.Contains(s.Ask.Options, *d) {
		l.find(at+".ask.default", "the default %q is none of the options", *d)
	}
	if later := s.Ask.Later; later != "" && !slices.Contains(s.Ask.Options, later) {
		l.find(at+".ask.later", "%q is none of the options", later)
	}
	for i, o := range s.Ask.Options {
		if o == "" || slices.Contains(s.Ask.Options[:i], o) {
			l.find(fmt.Sprintf("%s.ask.options[%d]", at, i), "the option %q is empty, or stands twice", o)
		}
	}
}

func (l *linter) wait(at string, s *Step, in *scope) {
	w := s.Wait
	if w.Within <= 0 {
		l.find(at, "a wait needs a limit: within, as 5m")
	}
	if w.Every != 0 && time.Duration(w.Every) < leastEvery {
		l.find(at+".every", "every is %v at least: each attempt may place a probe on a node", leastEvery)
	}
	if w.Every > w.Within {
		l.find(at+".every", "every is longer than within")
	}
	switch {
	case w.Run != nil:
		l.run(at+".run", w.Run, in)
	case !in.ran:
		l.find(at, "nothing was asked before that the wait could ask again: give it a run")
	}
	within := in.copy()
	within.ran, within.steps[s.Name] = true, true
	l.condition(at+".until", w.Until, &within)
	l.text(at+".else", w.Else, &within)
}

func (l *linter) notify(at string, n *Notify, in *scope) {
	if (n.Webhook != nil) == (len(n.Command) > 0) {
		l.find(at, "somebody is told by a webhook or by a command: exactly one of them")
	}
	l.command(at+".command", n.Command, in)
	w := n.Webhook
	if w == nil {
		return
	}
	at += ".webhook"
	if (w.URL != "") == (w.URLFrom != "") {
		l.find(at, "a webhook has url or urlFrom: exactly one of them")
	}
	if w.URL != "" && !strings.Contains(w.URL, "${") && !isHTTP(w.URL) {
		l.find(at+".url", "is no URL of http or https")
	}
	if w.AuthFrom != "" && strings.HasPrefix(w.URL, "http://") {
		l.find(at+".authFrom", "a secret is not sent over http: use https")
	}
	for f, name := range map[string]string{"urlFrom": w.URLFrom, "authFrom": w.AuthFrom} {
		if name != "" && !envName.MatchString(name) {
			l.find(at+"."+f, "%q is no name of an environment variable", name)
		}
	}
	l.text(at+".url", w.URL, in)
	l.text(at+".body", w.Body, in)
}

// isHTTP tells whether a text is where something can be posted.
func isHTTP(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

func (l *linter) action(at string, s *Step, in *scope) {
	if s.Name == "" {
		l.find(at, "an action needs a name, for --allow-actions NAME")
	}
	at += ".action"
	a := s.Action
	l.want(at+".says", a.Says)
	l.text(at+".says", a.Says, in)
	l.want(at+".touches", a.Touches)
	l.text(at+".touches", a.Touches, in)
	if len(a.DryRun) == 0 {
		l.find(at, "an action needs a dryRun that shows what it would do")
	}
	if len(a.Command) == 0 {
		l.find(at, "an action needs a command")
	}
	l.command(at+".dryRun", a.DryRun, in)
	for i, keep := range a.Keep {
		here := fmt.Sprintf("%s.keep[%d]", at, i)
		if len(keep) == 0 {
			l.find(here, "the command has no name")
		}
		l.command(here, keep, in)
		if len(keep) > 0 && isProgram(keep[0], "kubectl") && !slices.ContainsFunc(keep, func(w string) bool {
			return slices.Contains([]string{"logs", "get", "describe", "top"}, w)
		}) {
			l.find(here, "what is kept is only read: kubectl logs, get, describe or top")
		}
	}
	l.command(at+".command", a.Command, in)
	if len(a.DryRun) > 0 && isProgram(a.DryRun[0], "kubectl") && !slices.ContainsFunc(a.DryRun, func(w string) bool {
		return slices.Contains([]string{"--dry-run=server", "--dry-run=client", "diff", "get", "describe"}, w)
	}) {
		l.find(at+".dryRun", "a dry run changes nothing: give kubectl --dry-run=server")
	}
}

// command lints the words of a command. What a node said must be no part of a script.
func (l *linter) command(at string, words []string, in *scope) {
	for i, w := range words {
		here := fmt.Sprintf("%s[%d]", at, i)
		if w == "" && i == 0 {
			l.find(here, "the command has no name")
		}
		switch {
		case !l.holdsValues(w):
		case i > 1 && strings.HasPrefix(words[i-1], "-") && strings.HasSuffix(words[i-1], "c") && slices.ContainsFunc(words[:i-1], isShell):
			l.find(here, "a value in a script can be a command: pass it as an argument, and write \"$1\" in the script")
		case i > sshHost(words):
			l.find(here, "ssh makes a script of its words for a shell of the other host, and a value in it can be a command")
		}
		l.text(here, w, in)
	}
}

func isShell(name string) bool { return isProgram(name, "sh", "bash", "dash", "ash", "zsh", "ksh") }

func isProgram(word string, names ...string) bool { return slices.Contains(names, path.Base(word)) }

// sshHost is where an ssh among the words of a command has its host: what comes after is
// put together there. Without one it is beyond the last word.
func sshHost(words []string) int {
	at := slices.IndexFunc(words, func(w string) bool { return isProgram(w, "ssh") })
	if at < 0 {
		return len(words)
	}
	for at++; at < len(words) && strings.HasPrefix(words[at], "-"); at++ {
		if len(words[at]) == 2 && strings.Contains("BbcDEeFIiJLlmOopPQRSWw", words[at][1:]) { // its value is the next word
			at++
		}
	}
	return at
}

// holdsValues tells whether values are put into a text.
func (*linter) holdsValues(text string) bool {
	parts, err := pieces(text)
	return err == nil && slices.ContainsFunc(parts, func(p piece) bool { return p.expression != "" })
}

func (l *linter) isKebab(at, name string) {
	if !kebab.MatchString(name) {
		l.find(at, "%q is no name: lower-case letters and digits, with single dashes between", name)
	}
}

func (l *linter) want(at, text string) {
	if strings.TrimSpace(text) == "" {
		l.find(at, "%s is missing, or empty", field(at))
	}
}

// text lints the expressions of a text.
func (l *linter) text(at, text string, in *scope) {
	parts, err := pieces(text)
	if err != nil {
		l.find(at, "%v", err)
		return
	}
	for _, p := range parts {
		if strings.TrimSpace(p.expression) == "" {
			if p.words == "" {
				l.find(at, "${} has no expression in it; write $${ for a literal ${")
			}
			continue
		}
		c := l.expression(at, p.expression, p.line, in)
		if c != nil && !canBeSaid(c.kind) {
			l.findAt(l.line(at)+p.line, "${%s} is no text but a %s: name a field of it", brief(p.expression), c.kind)
		}
	}
}

// condition lints an expression that is to be true or false.
func (l *linter) condition(at, text string, in *scope) {
	if strings.TrimSpace(text) == "" {
		l.want(at, text)
		return
	}
	c := l.expression(at, text, 0, in)
	if c != nil && c.kind.Kind() != types.BoolKind && c.kind.Kind() != types.DynKind {
		l.find(at, "%s is true or false, and this is a %s: %s", field(at), c.kind, brief(text))
	}
}

// expression lints one expression, which begins so many lines below its field; nil =
// it is none.
func (l *linter) expression(at, text string, below int, in *scope) *compiled {
	c, err := compile(text)
	if bad, ok := errors.AsType[compileError](err); ok {
		l.findAt(l.line(at)+below+bad.line-1, "%s: %s", brief(text), bad.what)
		return nil
	}
	line := l.line(at) + below
	ast.PreOrderVisit(c.tree, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.SelectKind:
			if s := e.AsSelect(); s.Operand().Kind() == ast.IdentKind {
				l.name(line, s.Operand().AsIdent(), s.FieldName(), in)
			}
		case ast.CallKind:
			l.call(line, e.AsCall(), in)
		}
	}))
	return c
}

// call lints what a function or an index is given, where that stands in the expression.
func (l *linter) call(line int, c ast.CallExpr, in *scope) {
	args := c.Args()
	if len(args) == 2 && slices.Contains([]string{operators.Equals, operators.NotEquals, operators.In}, c.FunctionName()) {
		l.compared(line, args[0], args[1])
		l.compared(line, args[1], args[0])
	}
	if len(args) == 0 || args[len(args)-1].Kind() != ast.LiteralKind {
		return
	}
	id, ok := args[len(args)-1].AsLiteral().Value().(string)
	switch {
	case !ok:
	case c.FunctionName() == "_[_]" && args[0].Kind() == ast.IdentKind:
		l.name(line, args[0].AsIdent(), id, in)
	case c.FunctionName() == "cause" || c.FunctionName() == "suspected":
		l.isCause(line, id)
	case c.FunctionName() == "status" || c.FunctionName() == "asked":
		l.isCheck(line, id)
	}
}

// words are those that an expression can be, "" among them where it can be empty; nil = any.
func (l *linter) words(e ast.Expr) []string {
	what, answer := "", ""
	switch e.Kind() {
	case ast.IdentKind:
		what = e.AsIdent()
	case ast.SelectKind:
		of := e.AsSelect().Operand()
		switch {
		case of.Kind() == ast.IdentKind && of.AsIdent() == "answers":
			answer = e.AsSelect().FieldName()
		case of.Kind() == ast.SelectKind && of.AsSelect().FieldName() == "facts": // a check's own words
		default:
			what = e.AsSelect().FieldName()
		}
	case ast.CallKind:
		if c := e.AsCall(); c.FunctionName() == "status" {
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

// compared lints the literals that something is compared with which has known words.
func (l *linter) compared(line int, field, with ast.Expr) {
	words, name := l.words(field), ""
	if field.Kind() == ast.SelectKind {
		name = field.AsSelect().FieldName()
	}
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
			l.findAt(line, "it is never %q%s: it can be %s", id, Nearest(id, words), strings.TrimPrefix(strings.Join(words, ", "), ", "))
		case name == "cause":
			l.isCause(line, id)
		case name == "check":
			l.isCheck(line, id)
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

// name lints what is named of params, answers and steps.
func (l *linter) name(line int, of, name string, in *scope) {
	switch of {
	case "params":
		var names []string
		for _, p := range l.rb.Spec.Params {
			names = append(names, p.Name)
		}
		if !slices.Contains(names, name) {
			l.findAt(line, "there is no parameter %s%s", name, Nearest(name, names))
		}
	case "answers":
		if !in.answers[name] || name == "" {
			l.findAt(line, "answers.%s: no ask of that name comes before%s", name, Nearest(name, slices.Sorted(maps.Keys(in.answers))))
		}
	case "steps":
		if !in.steps[name] || name == "" {
			l.findAt(line, "steps.%s: no run, wait or check of that name comes before%s", name, Nearest(name, slices.Sorted(maps.Keys(in.steps))))
		}
	}
}
