package causefile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
)

// matcher is a parsed match. It holds the selections, in the order in which they are evaluated, and the cases.
type matcher struct {
	names   []string
	find    map[string][]selection
	cases   []func(s scope) ([]diagnose.Case, bool)
	further []bool            // for each case: if it holds, also try the cases below
	texts   map[string]string // source texts: selections by name, cases by number
	shared  Shared
	words   map[string]wordList
	rule    *diagnose.Rule
}

// selection returns findings from a scope.
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

// word matches a word of a selection. Part of the word may be in single quotes.
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

// onePer returns the first finding for each value of a key, for example to get one case per peer instead of one per
// result.
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

// arguments splits words into the arguments and the rest, which begins at the first condition.
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

// guard reports whether a case or an addition holds.
type guard func(s scope) bool

// readIf reads "held, not pods, this or that": which selections must have findings, and which must be empty.
func (m *matcher) readIf(text string) (guard, error) {
	var all []guard
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		var either []guard
		for name := range strings.SplitSeq(part, " or ") {
			name, not := strings.CutPrefix(strings.TrimSpace(name), "not ")
			of, err := m.selection(name)
			if err != nil {
				return nil, err
			}
			either = append(either, func(s scope) bool { return (len(of(s)) > 0) != not })
		}
		all = append(all, func(s scope) bool {
			return slices.ContainsFunc(either, func(g guard) bool { return g(s) })
		})
	}
	return func(s scope) bool { return !slices.ContainsFunc(all, func(g guard) bool { return !g(s) }) }, nil
}
