package causefile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
)

// Known lists the names that a cause may refer to.
type Known struct {
	Checks []string // IDs
	Causes []string // IDs
}

// Lint returns the mistakes in a parsed cause, one error each.
func Lint(rule *diagnose.Rule, known Known) []error {
	var bad []error
	add := func(format string, values ...any) { bad = append(bad, fmt.Errorf(format, values...)) }
	for _, id := range slices.Concat(rule.Wants, rule.RuledOut, rule.RefutedBy, rule.Uses.Checks) {
		if !slices.Contains(known.Checks, id) {
			add("%q is not a check", id)
		}
	}
	if rule.TracedBy != "" && !slices.Contains(known.Checks, rule.TracedBy) {
		add("traced-by: %q is not a check", rule.TracedBy)
	}
	for _, id := range rule.Explains {
		if !slices.Contains(known.Causes, id) {
			add("explains: %q is not a cause", id)
		}
	}
	named := map[string]bool{}
	for _, fix := range fixesOf(rule) {
		for _, text := range textsOf(fix) {
			for _, name := range diagnose.Placeholders(text) {
				named[name] = true
			}
		}
		for _, command := range commandsOf(fix) {
			if err := lintCommand(command); err != nil {
				add("%q: %w", command, err)
			}
		}
	}
	if rule.Trace != nil {
		bad = append(bad, lintArgs(named, rule.Uses)...)
	}
	return bad
}

// lintArgs reports names in a fix that have no value, and values that are not used.
func lintArgs(named map[string]bool, uses diagnose.Uses) []error {
	var bad []error
	for name := range named {
		if !slices.Contains(uses.Args, name) && !slices.Contains(uses.ArgsTogether, name) && !diagnose.IsCommonArg(name) {
			bad = append(bad, fmt.Errorf("no case sets {%s} of a fix", name))
		}
	}
	for _, name := range uses.Args {
		if !named[name] {
			bad = append(bad, fmt.Errorf("args: no fix has {%s}", name))
		}
	}
	return bad
}

// lintForeign returns an error for anything that a foreign file must not contain: command substitution, and terminal
// control characters, even as YAML escapes.
func lintForeign(text string, rule *diagnose.Rule) []error {
	var bad []error
	for i, r := range text {
		if controls(r) {
			bad = append(bad, fmt.Errorf("the character %U in line %d, which may control a terminal", r,
				1+strings.Count(text[:i], "\n")))
			break
		}
	}
	if d, err := parse(text); err == nil && hasControls(d.head) {
		bad = append(bad, errors.New("front matter: an escape makes a character that may control a terminal"))
	}
	for _, fix := range fixesOf(rule) {
		for _, command := range commandsOf(fix) {
			if strings.Contains(command, "$(") || strings.Contains(command, "`") || strings.Contains(command, "<(") {
				bad = append(bad, fmt.Errorf("%q: a command may not run another one by substitution", command))
			}
		}
	}
	return bad
}

// hasControls reports whether a decoded value in the front matter contains a control character.
func hasControls(head []byte) bool {
	var root yaml.Node
	if yaml.Unmarshal(head, &root) != nil {
		return false // already reported as an error
	}
	var in func(n *yaml.Node) bool
	in = func(n *yaml.Node) bool {
		return n.Kind == yaml.ScalarNode && strings.ContainsFunc(n.Value, controls) || slices.ContainsFunc(n.Content, in)
	}
	return in(&root)
}

// controls reports whether a character may control a terminal, or add an unexpected line break.
func controls(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) ||
		r == unicode.ReplacementChar
}

// verbs lists the kubectl and calicoctl verbs that a fix may use.
var verbs = map[string][]string{
	"kubectl": strings.Fields(`annotate api-resources apply auth certificate config cordon cp create debug delete describe
		drain edit exec explain get label logs patch replace rollout run scale set taint top uncordon version wait`),
	"calicoctl": strings.Fields(`apply cluster create datastore delete get ipam label node patch replace validate version`),
}

var (
	// invoked matches kubectl or calicoctl at the start of a command, with its options and verb.
	invoked = regexp.MustCompile(`(?:^|[;|&] *|sudo )(kubectl|calicoctl)((?: +-{1,2}[a-z-]+(?:[= ][^ -][^ ]*)?)*) +([a-z-]+)`)
	comment = regexp.MustCompile(`(^|\s)#.*$`)
)

// lintCommand returns an error for an unknown verb or an unclosed quote in a command.
func lintCommand(command string) error {
	bare, err := withoutQuoted(command)
	if err != nil {
		return err
	}
	for _, m := range invoked.FindAllStringSubmatch(comment.ReplaceAllString(bare, ""), -1) {
		if !slices.Contains(verbs[m[1]], m[3]) {
			return fmt.Errorf("%s has no %q", m[1], m[3])
		}
	}
	return nil
}

// withoutQuoted returns a command without its quoted parts.
func withoutQuoted(command string) (string, error) {
	var b strings.Builder
	quote := rune(0)
	escaped := false
	for _, r := range command {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '#' && (b.Len() == 0 || strings.HasSuffix(b.String(), " ")):
			return b.String(), nil
		case r == '\'' || r == '"':
			quote = r
		default:
			b.WriteRune(r)
		}
	}
	if quote != 0 {
		return "", errors.New("a quote has no end")
	}
	return b.String(), nil
}

func fixesOf(rule *diagnose.Rule) []probe.Fix {
	fixes := []probe.Fix{rule.Fix}
	for _, fix := range rule.Fixes {
		fixes = append(fixes, fix)
	}
	return fixes
}

func commandsOf(fix probe.Fix) []string {
	out := slices.Concat(fix.Manifest, fix.Operator)
	for _, c := range fix.OnlyIf {
		out = slices.Concat(out, c.Manifest, c.Operator)
	}
	return out
}

func textsOf(fix probe.Fix) []string {
	out := append(commandsOf(fix), fix.Says, fix.Radius)
	for _, c := range fix.OnlyIf {
		out = append(out, c.If)
	}
	return out
}
