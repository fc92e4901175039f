// Package selector reads Calico's label selectors, such as has(rack) && zone in {'a', "b"}:
//
//	text -> Parse -> Selector: labels -> selected or not
//
// Parse is the entry point. The language differs from Kubernetes' selector language. It is defined by
// libcalico-go/lib/selector in projectcalico/calico, which is not released as a Go module. This package does not
// evaluate policies: package netpolicy does.
package selector

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Selector is a function that reports whether it selects a set of labels.
type Selector func(labels map[string]string) bool

// maxDepth bounds nested parentheses.
const maxDepth = 100

// Parse reads a selector. The empty selector selects everything.
func Parse(text string) (Selector, error) {
	p := &parser{rest: text}
	p.blanks()
	if p.rest == "" {
		return func(map[string]string) bool { return true }, nil
	}
	s, err := p.or(0)
	if err == nil && p.rest != "" {
		err = fmt.Errorf("unexpected %.20q", p.rest)
	}
	if err != nil {
		return nil, fmt.Errorf("selector %.80q: %w", text, err)
	}
	return s, nil
}

// parser holds the text that has not been read yet, without leading blanks.
type parser struct{ rest string }

func (p *parser) blanks() { p.rest = strings.TrimLeft(p.rest, " \t") }

// take reads a fixed text if it comes next.
func (p *parser) take(text string) bool {
	rest, ok := strings.CutPrefix(p.rest, text)
	if ok {
		p.rest = rest
		p.blanks()
	}
	return ok
}

func (p *parser) or(depth int) (Selector, error) {
	return p.joined("||", depth, p.and, func(all []Selector) Selector {
		return func(labels map[string]string) bool {
			return slices.ContainsFunc(all, func(s Selector) bool { return s(labels) })
		}
	})
}

func (p *parser) and(depth int) (Selector, error) {
	return p.joined("&&", depth, p.not, func(all []Selector) Selector {
		return func(labels map[string]string) bool {
			return !slices.ContainsFunc(all, func(s Selector) bool { return !s(labels) })
		}
	})
}

// joined reads one or more parts with an operator between them.
func (p *parser) joined(operator string, depth int, part func(int) (Selector, error),
	join func([]Selector) Selector) (Selector, error) {
	var all []Selector
	for {
		s, err := part(depth)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
		if !p.take(operator) {
			return join(all), nil
		}
	}
}

func (p *parser) not(depth int) (Selector, error) {
	negated := false
	for p.take("!") {
		negated = !negated
	}
	s, err := p.operation(depth)
	if err != nil || !negated {
		return s, err
	}
	return func(labels map[string]string) bool { return !s(labels) }, nil
}

func (p *parser) operation(depth int) (Selector, error) {
	if depth > maxDepth {
		return nil, errors.New("too many parentheses")
	}
	var s Selector
	var err error
	switch {
	case p.take("("):
		s, err = p.or(depth + 1)
	case p.take("has("):
		label := p.label()
		if label == "" {
			return nil, errors.New("has( without a label")
		}
		s = func(labels map[string]string) bool { _, ok := labels[label]; return ok }
	case p.take("all("), p.take("global("): // nodes do not belong to a namespace
		s = func(map[string]string) bool { return true }
	default:
		return p.comparison()
	}
	if err == nil && !p.take(")") {
		err = errors.New("a ) is missing")
	}
	return s, err
}

// label reads a label's name. It returns "" if the next text is not a label's name.
func (p *parser) label() string {
	n := strings.IndexFunc(p.rest, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_./-", r)
	})
	if n < 0 {
		n = len(p.rest)
	}
	label := p.rest[:n]
	p.rest = p.rest[n:]
	p.blanks()
	return label
}

func (p *parser) comparison() (Selector, error) {
	label := p.label()
	if label == "" {
		return nil, fmt.Errorf("a label is missing before %.20q", p.rest)
	}
	// If a label is missing, a comparison with it is false, and a negated comparison is true.
	is := func(test func(string) bool) Selector {
		return func(labels map[string]string) bool { v, ok := labels[label]; return ok && test(v) }
	}
	isNot := func(test func(string) bool) Selector {
		return func(labels map[string]string) bool { v, ok := labels[label]; return !ok || !test(v) }
	}
	switch {
	case p.take("=="):
		v, err := p.value()
		return is(func(s string) bool { return s == v }), err
	case p.take("!="):
		v, err := p.value()
		return isNot(func(s string) bool { return s == v }), err
	case p.take("contains"):
		v, err := p.value()
		return is(func(s string) bool { return strings.Contains(s, v) }), err
	case p.take("starts") && p.take("with"):
		v, err := p.value()
		return is(func(s string) bool { return strings.HasPrefix(s, v) }), err
	case p.take("ends") && p.take("with"):
		v, err := p.value()
		return is(func(s string) bool { return strings.HasSuffix(s, v) }), err
	case p.take("in"):
		set, err := p.set()
		return is(func(s string) bool { return slices.Contains(set, s) }), err
	case p.take("not") && p.take("in"):
		set, err := p.set()
		return isNot(func(s string) bool { return slices.Contains(set, s) }), err
	}
	return nil, fmt.Errorf("no operator after label %s", label)
}

// value reads a string in single or double quotes, without escapes.
func (p *parser) value() (string, error) {
	for _, mark := range []string{`"`, `'`} {
		rest, ok := strings.CutPrefix(p.rest, mark)
		if !ok {
			continue
		}
		v, rest, ok := strings.Cut(rest, mark)
		if !ok {
			return "", errors.New("a string does not end")
		}
		p.rest = rest
		p.blanks()
		return v, nil
	}
	return "", fmt.Errorf("a string is missing before %.20q", p.rest)
}

func (p *parser) set() ([]string, error) {
	if !p.take("{") {
		return nil, errors.New("a { is missing")
	}
	var all []string
	for !p.take("}") {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		all = append(all, v)
		if !p.take(",") && !strings.HasPrefix(p.rest, "}") {
			return nil, errors.New("a } is missing")
		}
	}
	return all, nil
}
