package causefile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
)

// alternatives is a selection: one text, or several texts whose findings are joined in order.
type alternatives []string

// UnmarshalYAML reads one text, or a list of them.
func (a *alternatives) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*a = alternatives{n.Value}
		return nil
	}
	return n.Decode((*[]string)(a))
}

// scope is the state of a match: all findings, and the evaluated selections by name.
type scope struct {
	diagnose.Findings
	found map[string][]diagnose.Finding
}

// selection returns findings of a scope.
type selection func(s scope) []diagnose.Finding

// statuses maps words to predicates on the status of a result.
var statuses = map[string]func(probe.Status) bool{
	"any":      func(probe.Status) bool { return true },
	"bad":      diagnose.IsBad,
	"answered": diagnose.IsAnswered,
	"good":     func(s probe.Status) bool { return diagnose.IsAnswered(s) && !diagnose.IsBad(s) },
	"ok":       is(probe.OK), "info": is(probe.Info), "warn": is(probe.Warn), "fail": is(probe.Fail),
	"skip": is(probe.Skip), "unknown": is(probe.Unknown),
}

func is(want probe.Status) func(probe.Status) bool {
	return func(s probe.Status) bool { return s == want }
}

// word matches a word of a selection, which may have a part in single quotes.
var word = regexp.MustCompile(`(?:[^\s']|'[^']*')+`)

// everyCheck in a selection stands for all checks. The condition check=ID narrows it.
const everyCheck = "every-check"

// selection reads "[others:]CHECK STATUS CONDITION...", "[others:]@NAME ARGUMENT...", or "NAME CONDITION...", where
// NAME is an earlier selection. Conditions may end with once:KEY, which keeps the first finding for each value, and
// first:N.
func (m *matcher) selection(text string) (selection, error) {
	words := word.FindAllString(text, -1)
	if len(words) == 0 {
		return nil, fmt.Errorf("an empty selection")
	}
	of, rest, err := m.source(words)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	var conditions []condition
	limit, once := 0, ""
	for _, w := range rest {
		if key, ok := strings.CutPrefix(w, "once:"); ok {
			once = key
			continue
		}
		if n, ok := strings.CutPrefix(w, "first:"); ok {
			if limit, err = strconv.Atoi(n); err != nil || limit < 1 {
				return nil, fmt.Errorf("%q: %q needs a number", text, w)
			}
			continue
		}
		c, err := m.condition(w)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		conditions = append(conditions, c)
	}
	return func(s scope) []diagnose.Finding {
		out := diagnose.Keep(of(s), func(r diagnose.Finding) bool {
			return !slices.ContainsFunc(conditions, func(c condition) bool { return !c(s, r) })
		})
		if once != "" {
			out = onePer(once, out)
		}
		if limit > 0 {
			out = out[:min(len(out), limit)]
		}
		return out
	}, nil
}

// onePer returns the first finding for each value of a key: one case per peer, not one per result.
func onePer(key string, of []diagnose.Finding) []diagnose.Finding {
	seen := map[string]bool{}
	return diagnose.Keep(of, func(r diagnose.Finding) bool {
		v, _ := valueOf(r, key)
		value := plainValue(v)
		known := seen[value]
		seen[value] = true
		return !known
	})
}

// source reads the source of a selection's findings, and returns the words after it.
func (m *matcher) source(words []string) (selection, []string, error) {
	check, elsewhere := strings.CutPrefix(words[0], "others:")
	if name, named := strings.CutPrefix(check, "@"); named {
		of, known := m.shared.Selections[name]
		if !known {
			return nil, nil, fmt.Errorf("no shared selection %q", words[0])
		}
		args, rest := arguments(words[1:])
		if least := m.shared.Least[name]; len(args) < least {
			return nil, nil, fmt.Errorf("%q needs %s", words[0], diagnose.CountOf(float64(least), "argument"))
		}
		texts, err := parseTexts(args, m.names)
		return func(s scope) []diagnose.Finding {
			if elsewhere {
				return ofOthers(s.Findings, of, texts.in(s))
			}
			return of(s.Findings, texts.in(s)...)
		}, rest, err
	}
	if slices.Contains(m.names, words[0]) {
		return func(s scope) []diagnose.Finding { return s.found[words[0]] }, words[1:], nil
	}
	if len(words) == 1 || statuses[words[1]] == nil {
		return nil, nil, fmt.Errorf("%q is not a selection of this match, and a check needs a status after it", words[0])
	}
	status := statuses[words[1]]
	if words[0] == everyCheck {
		return func(s scope) []diagnose.Finding {
			return s.Where(func(r diagnose.Finding) bool { return status(r.Status) })
		}, words[2:], nil
	}
	m.rule.Uses.Checks = append(m.rule.Uses.Checks, check)
	return func(s scope) []diagnose.Finding {
		of := s.Of
		if elsewhere {
			of = s.Elsewhere
		}
		return diagnose.Keep(of(check), func(r diagnose.Finding) bool { return status(r.Status) })
	}, words[2:], nil
}

// ofOthers returns a shared selection's findings on the other nodes, node by node. A faulty server and its log may be
// on a node other than the affected one.
func ofOthers(f diagnose.Findings, of SelectionFunc, args []string) []diagnose.Finding {
	var out []diagnose.Finding
	for _, node := range f.Others() {
		out = append(out, of(f.At(node), args...)...)
	}
	return out
}

// arguments splits words before the first condition.
func arguments(words []string) (args, rest []string) {
	i := slices.IndexFunc(words, func(w string) bool {
		return strings.HasPrefix(w, "first:") || strings.HasPrefix(w, "once:") || isCondition(w)
	})
	if i < 0 {
		i = len(words)
	}
	return words[:i], words[i:]
}

func isCondition(w string) bool { return comparison.MatchString(w) }

// condition reports whether a selection keeps a finding.
type condition func(s scope, r diagnose.Finding) bool

// comparison matches a condition on a field or a fact:
//
//	=    equals one of the texts between bars
//	!=   equals no text between bars
//	~    is a list that contains one of the texts, or a text that contains it
//	~~   is a text, or a list with an entry, that matches the pattern
//	< >  is a number, or a list of a length, below or above
//	?    the fact exists
//	??   the fact exists and is not empty
var comparison = regexp.MustCompile(`^(!?)([a-z_]+)(!=|=|~~|~|<=|>=|<|>|\?\?|\?)(.*)$`)

func (m *matcher) condition(text string) (condition, error) {
	parts := comparison.FindStringSubmatch(text)
	if parts == nil {
		return nil, fmt.Errorf("%q is not a condition such as reason=timeout", text)
	}
	not, key, operator, right := parts[1] == "!", parts[2], parts[3], parts[4]
	if !slices.Contains(fields, key) {
		m.rule.Uses.Facts = append(m.rule.Uses.Facts, key)
	}
	c, err := compare(key, operator, right, m.names)
	if err != nil || !not {
		return c, err
	}
	return func(s scope, r diagnose.Finding) bool { return !c(s, r) }, nil
}

func compare(key, operator, right string, names []string) (condition, error) {
	switch operator {
	case "?", "??":
		return func(_ scope, r diagnose.Finding) bool {
			v, there := valueOf(r, key)
			return there && (operator == "?" || !empty(v))
		}, nil
	case "<", ">", "<=", ">=":
		return compareNumber(key, operator, right, names)
	case "~~":
		pattern, err := regexp.Compile(unquoted(right))
		return func(_ scope, r diagnose.Finding) bool {
			v, _ := valueOf(r, key)
			if text, ok := v.(string); ok {
				return pattern.MatchString(text)
			}
			return slices.ContainsFunc(listOf(v), pattern.MatchString)
		}, err
	}
	texts, err := parseTexts(strings.Split(right, "|"), names)
	return func(s scope, r diagnose.Finding) bool {
		v, there := valueOf(r, key)
		wanted := texts.in(s)
		switch {
		case operator == "~":
			return slices.ContainsFunc(wanted, func(w string) bool { return contains(v, w) })
		case operator == "=":
			return there && slices.ContainsFunc(wanted, func(w string) bool { return equal(v, w) })
		}
		return !there || !slices.ContainsFunc(wanted, func(w string) bool { return equal(v, w) })
	}, err
}

// empty reports whether a value is an empty text or list, which checks also send.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return len(v) == 0
	case []string:
		return len(v) == 0
	}
	return fmt.Sprint(v) == ""
}

func compareNumber(key, operator, right string, names []string) (condition, error) {
	texts, err := parseTexts([]string{right}, names)
	if err != nil {
		return nil, err
	}
	return func(s scope, r diagnose.Finding) bool {
		have, ok := numberOf(r, key)
		want, err := strconv.ParseFloat(texts.in(s)[0], 64)
		if !ok || err != nil {
			return false
		}
		switch operator {
		case "<":
			return have < want
		case ">":
			return have > want
		case "<=":
			return have <= want
		}
		return have >= want
	}, nil
}

// fields are the names of a finding's fields besides its facts.
var fields = []string{"target", "saw", "from", "way", "on", "status", "check", "firstword", "lastword", "family"}

// valueOf returns a field of a finding by its name, or one of its facts.
func valueOf(r diagnose.Finding, key string) (any, bool) {
	switch key {
	case "target":
		return r.Target, true
	case "saw":
		return r.Saw, true
	case "from":
		return r.From, true
	case "way":
		return r.Method, true
	case "on":
		return r.Node, true
	case "status":
		return string(r.Status), true
	case "check":
		return r.Check, true
	case "firstword": // the target's first word
		first, _, _ := strings.Cut(r.Target, " ")
		return first, true
	case "lastword":
		return diagnose.LastWord(r.Target), true
	case "family":
		return float64(diagnose.FamilyOf(r)), true
	}
	v, there := r.Facts[probe.Fact(key)]
	return v, there
}

func numberOf(r diagnose.Finding, key string) (float64, bool) {
	if n, ok := r.Facts.Num(probe.Fact(key)); ok {
		return n, true
	}
	v, _ := valueOf(r, key)
	if list := listOf(v); list != nil {
		return float64(len(list)), true
	}
	n, ok := v.(float64)
	return n, ok
}

// equal compares a value with a text: numbers as numbers, booleans by name.
func equal(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return v == text
	case bool:
		return strconv.FormatBool(v) == text
	}
	have, ok := probe.Facts{"n": v}.Num("n")
	want, err := strconv.ParseFloat(text, 64)
	return ok && err == nil && have == want
}

// contains reports whether a list or a text contains the given text.
func contains(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, text)
	case []any: // a list of texts or ports
		return slices.ContainsFunc(v, func(one any) bool { return equal(one, text) })
	case []string:
		return slices.Contains(v, text)
	}
	return false
}

func unquoted(text string) string { return strings.ReplaceAll(text, "'", "") }
