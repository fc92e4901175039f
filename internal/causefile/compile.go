package causefile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
)

// selectionName matches the valid names of selections.
var selectionName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// compile builds a match from the front matter of a file.
func compile(head front, rule *diagnose.Rule, shared Shared) (Match, error) {
	m := &matcher{find: map[string][]selection{}, texts: map[string]string{}, shared: shared,
		words: map[string]wordList{}, rule: rule}
	for name, list := range shared.Words {
		m.words[name] = list
	}
	maps.Copy(m.words, head.Words)
	if err := m.readFind(head.Find); err != nil {
		return nil, err
	}
	for i, c := range head.Cases {
		read, err := m.readCase(c)
		if err != nil {
			return nil, fmt.Errorf("case %d: %w", i+1, err)
		}
		m.cases, m.further = append(m.cases, read), append(m.further, c.Further)
		m.texts[strconv.Itoa(i)] = condensed(c)
	}
	rule.Trace = m.trace
	return m.match, nil
}

// match returns the cases that hold. The engine calls it.
func (m *matcher) match(f diagnose.Findings) []diagnose.Case {
	s := scope{f, map[string][]diagnose.Finding{}}
	m.findAll(s, m.names)
	var out []diagnose.Case
	for i, c := range m.cases {
		if cases, holds := c(s); holds {
			out = append(out, cases...)
			if !m.further[i] {
				break
			}
		}
	}
	return out
}

// trace returns the findings of each selection, and which cases hold.
func (m *matcher) trace(f diagnose.Findings) []diagnose.Step {
	s := scope{f, map[string][]diagnose.Finding{}}
	m.findAll(s, m.names)
	var out []diagnose.Step
	for _, name := range m.names {
		out = append(out, diagnose.Step{Text: m.texts[name], Found: len(s.found[name])})
	}
	for i, c := range m.cases {
		_, holds := c(s)
		out = append(out, diagnose.Step{Text: m.texts[strconv.Itoa(i)], Case: true, Holds: holds})
	}
	return out
}

// condensed formats a case's condition for a trace.
func condensed(c caseData) string {
	var parts []string
	if c.Each != "" {
		parts = append(parts, "each "+c.Each)
	}
	if c.If != "" {
		parts = append(parts, "if "+c.If)
	}
	return strings.Join(parts, " ")
}

// findAll evaluates named selections in a scope.
func (m *matcher) findAll(s scope, names []string) {
	for _, name := range names {
		var found []diagnose.Finding
		for _, of := range m.find[name] {
			found = append(found, of(s)...)
		}
		s.found[name] = found
	}
}

// readFind reads the selections. It reads each selection after those that it refers to.
func (m *matcher) readFind(find map[string]alternatives) error {
	left := slices.Sorted(maps.Keys(find))
	for _, name := range left {
		if !selectionName.MatchString(name) {
			return fmt.Errorf("find: %q is not a valid selection name", name)
		}
	}
	for len(left) > 0 {
		var later []string
		var first error
		for _, name := range left {
			of, err := m.readSelections(find[name])
			if err != nil {
				later, first = append(later, name), cmp.Or(first, fmt.Errorf("find: %s: %w", name, err))
				continue
			}
			m.names, m.find[name] = append(m.names, name), of
			m.texts[name] = name + ": " + strings.Join(find[name], " + ")
		}
		if len(later) == len(left) {
			return first
		}
		left = later
	}
	return nil
}

func (m *matcher) readSelections(of alternatives) ([]selection, error) {
	var out []selection
	for _, text := range of {
		one, err := m.selection(text)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// readCase reads one case.
func (m *matcher) readCase(c caseData) (func(s scope) ([]diagnose.Case, bool), error) {
	holds, err := m.readIf(c.If)
	if err != nil {
		return nil, fmt.Errorf("if: %w", err)
	}
	if c.Each != "" && !slices.Contains(m.names, c.Each) {
		return nil, fmt.Errorf("each: no selection %q", c.Each)
	}
	if c.Each == "" && c.If == "" {
		return nil, errors.New("neither each nor if: it would always hold")
	}
	if c.Says == "" {
		return nil, errors.New("no says")
	}
	parts := map[string]text{}
	for name, template := range map[string]string{"about": c.About, "peer": c.Peer, "family": c.Family} {
		if parts[name], err = parseText(template, m.names, m.words); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	adds, err := m.readAll(c)
	if err != nil {
		return nil, err
	}
	one := func(s scope) diagnose.Case {
		family, _ := strconv.Atoi(parts["family"].in(s))
		out := diagnose.Case{About: parts["about"].in(s), Peer: parts["peer"].in(s), Family: family, Fault: c.Fault}
		for _, add := range adds {
			add(s, &out)
		}
		return out
	}
	after := m.dependents(c.Each)
	return func(s scope) ([]diagnose.Case, bool) {
		if c.Each == "" {
			if !holds(s) {
				return nil, false
			}
			return []diagnose.Case{one(s)}, true
		}
		var out []diagnose.Case
		for _, r := range s.found[c.Each] {
			inner := scope{s.Findings, maps.Clone(s.found)}
			inner.found[c.Each] = []diagnose.Finding{r}
			m.findAll(inner, after)
			if holds(inner) {
				out = append(out, one(inner))
			}
		}
		return out, len(out) > 0
	}, nil
}

// dependents returns the selections after the given selection. If one of them refers to it, it uses the case's finding.
func (m *matcher) dependents(each string) []string {
	i := slices.Index(m.names, each)
	if i < 0 {
		return nil
	}
	return m.names[i+1:]
}
