package runbook

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Known lists the names to which a runbook may refer.
type Known struct {
	Causes []string
	Advice []probe.Cause // the ID, advice and runbooks of each cause
	Checks []string      // the IDs that a result can have
	// Selects returns the IDs of the checks that --checks, --skip and --profile of a run select.
	Selects func(checks, skip []string, profile string) ([]string, error)
	// Together returns the checks that a fleet step runs. It fails if a named check cannot run on many nodes, or if no
	// checks are left.
	Together func(Fleet) ([]string, error)
	Methods  []string
	Profiles []string
}

var (
	kebab     = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	paramName = regexp.MustCompile(`^[a-z][a-z0-9]*([-_][a-z0-9]+)*$`)
	envName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	verdicts  = []string{wordHealthy, wordWarnings, wordFault, wordIncomplete} // the verdicts that a runbook can conclude
)

// minEvery is the minimum interval of a wait, because each attempt may place a probe on a node.
var minEvery = 5 * time.Second

// linter checks a runbook before it runs. A mistake that is found only at run time costs time during an incident.
type linter struct {
	file     string
	known    Known
	lines    map[string]int // line of each field, by path: spec.steps[0].run
	findings []Finding
	unread   []string // paths of fields with a wrong type

	rb       *Runbook
	names    []string // names of all steps
	branches []string
	own      []string // IDs of the runbook's own checks
}

func (l *linter) find(path, format string, args ...any) {
	if !l.follows(path) {
		l.findAt(l.line(path), format, args...)
	}
}

// follows reports whether a finding may only be a consequence of a malformed field next to or above it. If a field is
// misspelled, another field is missing, and the user needs only the first finding.
func (l *linter) follows(path string) bool {
	for l.lines[path] == 0 && path != "" {
		path = parent(path)
	}
	return slices.ContainsFunc(l.unread, func(field string) bool { return path == field || path == parent(field) })
}

// parent returns the path of the field's container.
func parent(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }

func (l *linter) findAt(line int, format string, args ...any) {
	l.findings = append(l.findings, Finding{File: l.file, Line: line, What: brief(fmt.Sprintf(format, args...))})
}

// warnAt records a suspicious but valid construct.
func (l *linter) warnAt(line int, format string, args ...any) {
	l.findings = append(l.findings, Finding{
		File: l.file, Line: line, What: brief(fmt.Sprintf(format, args...)), Warning: true,
	})
}

// line returns a field's line. If the field is missing, it returns the line of the field's container.
func (l *linter) line(path string) int {
	for l.lines[path] == 0 && path != "" {
		path = parent(path)
	}
	return max(1, l.lines[path])
}

func (l *linter) lint(rb *Runbook) {
	l.rb = rb
	if rb.APIVersion != APIVersion {
		l.find("apiVersion", "apiVersion must be %s, not %q", APIVersion, rb.APIVersion)
	}
	if rb.Kind != Kind {
		l.find("kind", "kind must be %s, not %q", Kind, rb.Kind)
	}
	l.isKebab("metadata.name", rb.Metadata.Name)
	l.want("spec.title", rb.Spec.Title)
	for i, a := range rb.Spec.Alerts {
		at := fmt.Sprintf("spec.alerts[%d]", i)
		if slices.Contains(rb.Spec.Alerts[:i], a) {
			l.find(at, "duplicate alert %q", a)
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
			l.find(at+".name", "%q is not a valid parameter name: use lower-case letters, digits, - and _", p.Name)
		case slices.Contains(params, p.Name):
			l.find(at+".name", "duplicate parameter %s", p.Name)
		case slices.ContainsFunc(params, func(other string) bool { return inEnvironment(other) == inEnvironment(p.Name) }):
			l.find(at+".name", "parameter %s becomes the environment variable %s, like another parameter", p.Name, inEnvironment(p.Name))
		}
		params = append(params, p.Name)
	}
	if len(rb.Spec.Steps) == 0 {
		l.find("spec.steps", "the runbook has no steps")
	}
	rb.each(func(s *Step) {
		if s.Check != nil {
			l.own = append(l.own, s.Check.ID)
		}
	})
	l.steps("spec.steps", rb.Spec.Steps, newScope())
}

// steps lints steps in order. It reports whether they always end the runbook.
func (l *linter) steps(at string, steps []Step, in *scope) (ends bool) {
	for i := range steps {
		here := fmt.Sprintf("%s[%d]", at, i)
		if ends {
			l.find(here, "is unreachable: the runbook ends before it")
			return true
		}
		ends = l.step(here, &steps[i], in)
	}
	return ends
}

func (l *linter) step(at string, s *Step, in *scope) (ends bool) {
	switch set := s.kind(); len(set) {
	case 1:
	case 0:
		l.find(at, "the step does nothing: add one of %s", strings.Join(kinds(), ", "))
		return false
	default:
		l.find(at, "the step does several things (%s): split it into a step for each", strings.Join(set, ", "))
		return false
	}
	if s.Name != "" {
		l.isKebab(at+".name", s.Name)
		if slices.Contains(l.names, s.Name) {
			l.find(at+".name", "duplicate name %s", s.Name)
		}
		l.names = append(l.names, s.Name)
	}
	if s.When == "" {
		return l.does(at, s, in)
	}
	inside := in.copy()
	l.condition(at+".when", s.When, in)
	in.join(l.does(at, s, inside), inside)
	return false
}

// does lints a step's operation. It assumes that the step runs, and reports whether the step always ends the runbook.
func (l *linter) does(at string, s *Step, in *scope) (ends bool) {
	switch {
	case s.Run != nil:
		l.run(at+".run", s.Run, in)
		in.asks(s.Name, s.Run.On, l.checksOf(s.Run))
	case s.Fleet != nil:
		l.fleet(at+".fleet", s.Fleet, in)
		in.steps[s.Name] = nil // an action has causes, but no results
	case s.Check != nil:
		l.check(at+".check", s.Check, in)
		in.checks(s.Name, s.Check.ID)
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
	case s.Notify != nil:
		l.notify(at+".notify", s.Notify, in)
	case s.Action != nil:
		l.action(at, s, in)
	case s.Conclude != nil:
		c := s.Conclude
		switch {
		case c.Verdict == "" && !in.ran:
			l.find(at+".conclude", "without a verdict, conclude uses the verdict of the last run, but there is no earlier run: add one of %s", strings.Join(verdicts, ", "))
		case c.Verdict != "" && !slices.Contains(verdicts, c.Verdict):
			l.find(at+".conclude.verdict", "a verdict is one of %s, not %q", strings.Join(verdicts, ", "), c.Verdict)
		}
		l.want(at+".conclude.says", c.Says)
		l.text(at+".conclude.says", c.Says, in)
		l.text(at+".conclude.next", c.Next, in)
		return true
	default:
		return l.choose(at+".choose", s.Choose, in)
	}
	return false
}

func (l *linter) choose(at string, branches []Branch, in *scope) (ends bool) {
	if len(branches) == 0 {
		l.find(at, "choose has no branches")
	}
	rest := in.copy() // the scope if none of the branches so far matched
	var through []*scope
	for i, b := range branches {
		here := fmt.Sprintf("%s[%d]", at, i)
		l.isKebab(here+".name", b.Name)
		if slices.Contains(l.branches, b.Name) {
			l.find(here+".name", "duplicate branch %s", b.Name)
		}
		l.branches = append(l.branches, b.Name)
		last := i == len(branches)-1
		if b.When == "" && !last {
			l.find(here, "only the last branch may omit when: the branches below it are unreachable")
		}
		inside := rest.copy()
		if b.When != "" {
			l.condition(here+".when", b.When, rest)
		}
		if ended := l.steps(here+".steps", b.Steps, inside); ended {
			in.join(true, inside)
		} else {
			through = append(through, inside)
		}
	}
	if len(branches) == 0 || branches[len(branches)-1].When != "" {
		through = append(through, rest)
	}
	if len(through) == 0 {
		return true
	}
	through[0].join(true, in)
	*in = *through[0]
	for _, other := range through[1:] {
		in.join(false, other)
	}
	return false
}

func (l *linter) run(at string, r *Run, in *scope) {
	if len(r.Checks) > 0 && r.Profile != "" {
		l.find(at+".profile", "checks and profile both select checks: leave out one of them")
	}
	for _, list := range []struct {
		at       string
		patterns []string
	}{{at + ".checks", r.Checks}, {at + ".skip", r.Skip}} {
		for i, p := range list.patterns {
			if _, err := l.known.Selects([]string{p}, nil, ""); err != nil {
				l.find(fmt.Sprintf("%s[%d]", list.at, i), "%v", err)
			}
		}
	}
	l.oneOf(at+".profile", "profile", r.Profile, l.known.Profiles)
	l.oneOf(at+".via", "access method", r.Via, l.known.Methods)
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
	if len(r.On.Names) > maxNodes {
		l.find(at+".on.names", "%d nodes are named, but a run takes at most %d", len(r.On.Names), maxNodes)
	}
	for i, n := range r.On.Names {
		l.want(fmt.Sprintf("%s.on.names[%d]", at, i), n)
		l.text(fmt.Sprintf("%s.on.names[%d]", at, i), n, in)
	}
}

func (l *linter) oneOf(at, what, typed string, known []string) {
	if typed != "" && !slices.Contains(known, typed) {
		l.find(at, "unknown %s %q%s: use one of %s", what, typed, Nearest(typed, known), strings.Join(known, ", "))
	}
}

func (l *linter) check(at string, c *Check, in *scope) {
	l.isKebab(at+".id", c.ID)
	if slices.Contains(l.known.Checks, c.ID) {
		l.find(at+".id", "%s is a built-in check: choose another ID", c.ID)
	}
	l.want(at+".asks", c.Asks)
	if (len(c.Command) > 0) == (c.That != "") {
		l.find(at, "a check needs exactly one of the fields command and that")
	}
	l.command(at+".command", c.Command, in)
	if c.That != "" {
		l.condition(at+".that", c.That, in)
		l.want(at+".saw", c.Saw)
	} else if c.Saw != "" {
		l.find(at+".saw", "leave out saw: a command reports its first line of output")
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
		l.find(at+".ask.default", "the default %q is not one of the options", *d)
	}
	if later := s.Ask.Later; later != "" && !slices.Contains(s.Ask.Options, later) {
		l.find(at+".ask.later", "%q is not one of the options", later)
	}
	for i, o := range s.Ask.Options {
		if o == "" || slices.Contains(s.Ask.Options[:i], o) {
			l.find(fmt.Sprintf("%s.ask.options[%d]", at, i), "the option %q is empty or a duplicate", o)
		}
	}
}

func (l *linter) wait(at string, s *Step, in *scope) {
	w := s.Wait
	if w.Within <= 0 {
		l.find(at, "a wait needs a limit: add within, such as 5m")
	}
	if w.Every != 0 && time.Duration(w.Every) < minEvery {
		l.find(at+".every", "every must be at least %v: each attempt may place a probe on a node", minEvery)
	}
	if w.Every > w.Within {
		l.find(at+".every", "every is longer than within")
	}
	switch {
	case w.Run != nil:
		l.run(at+".run", w.Run, in)
	case !in.ran:
		l.find(at, "there is no earlier run for the wait to repeat: add a run")
	}
	if time.Duration(w.Within) > Limit {
		l.warnAt(l.line(at+".within"), "it is longer than the default limit of a runbook (%v; see --timeout)", Limit)
	}
	if w.Run != nil {
		in.asks(s.Name, w.Run.On, l.checksOf(w.Run))
	} else {
		in.asks(s.Name, nil, in.included)
	}
	l.condition(at+".until", w.Until, in)
	l.text(at+".else", w.Else, in)
}

func (l *linter) isKebab(at, name string) {
	if !kebab.MatchString(name) {
		l.find(at, "%q is not a valid name: use lower-case letters and digits, with single dashes between them", name)
	}
}

func (l *linter) want(at, text string) {
	if strings.TrimSpace(text) == "" {
		l.find(at, "%s is missing or empty", field(at))
	}
}

// inEnvironment returns the name of a parameter's environment variable for commands.
func inEnvironment(param string) string {
	return "CALICO_PROBE_PARAM_" + strings.ToUpper(strings.ReplaceAll(param, "-", "_"))
}
