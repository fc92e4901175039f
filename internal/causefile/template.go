package causefile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
)

// texts are parsed templates of values and sentences.
type texts []text

// text is a parsed template.
type text []part

// part is literal text, a value of a selection's findings, or an optional part of a sentence.
type part struct {
	show  func(s scope) string
	value bool
}

// in evaluates texts in a scope.
func (t texts) in(s scope) []string {
	out := make([]string, len(t))
	for i, one := range t {
		out[i] = one.in(s)
	}
	return out
}

func (t text) in(s scope) string {
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.show(s))
	}
	return b.String()
}

// whole evaluates the text in a scope. It returns "" if one of the values is empty.
func (t text) whole(s scope) string {
	for _, p := range t {
		if p.value && p.show(s) == "" {
			return ""
		}
	}
	return t.in(s)
}

// parseTexts parses the values in conditions and arguments, and removes quotes around words. {node} is always the
// diagnosed node, because results from other nodes may be about it.
func parseTexts(words, names []string) (texts, error) {
	var out texts
	for _, w := range words {
		var whole text
		for i, piece := range strings.Split(unquoted(w), "{node}") {
			t, err := parseText(piece, names, nil)
			if err != nil {
				return nil, err
			}
			if i > 0 {
				whole = append(whole, part{show: func(s scope) string { return s.Node }})
			}
			whole = append(whole, t...)
		}
		out = append(out, whole)
	}
	return out, nil
}

// placeholder matches a value in a template: {SELECTION.KEY} or {SELECTION.KEY:FORMAT}. Names without a dot, such as
// {node}, belong to the engine.
var placeholder = regexp.MustCompile(`\{([a-z][a-z0-9_]*)\.(\*?[a-z_]+(?:\|[a-z_]+)*)(?::([a-z0-9_]+)(?: ((?:[^{}]|\{[0-9,]+\})+))?)?\}`)

// parseText parses a template. names lists the selections that it may use, and words the replacements for values.
func parseText(template string, names []string, words map[string]wordList) (text, error) {
	var out text
	literal := func(s string) {
		if s != "" {
			out = append(out, part{show: func(scope) string { return s }})
		}
	}
	at := 0
	for _, m := range placeholder.FindAllStringSubmatchIndex(template, -1) {
		literal(template[at:m[0]])
		at = m[1]
		group := func(i int) string {
			if m[2*i] < 0 {
				return ""
			}
			return template[m[2*i]:m[2*i+1]]
		}
		value, err := parseValue(group(1), group(2), group(3), group(4), names, words)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", template[m[0]:m[1]], err)
		}
		out = append(out, part{value, true})
	}
	literal(template[at:])
	return out, nil
}

// optional matches an optional part of a sentence, in brackets with a value: "[ for {late.age_s:lasting}]". The part is
// omitted if one of its values is empty. Other brackets are literal.
var optional = regexp.MustCompile(`\[([^\[\]]*\{[a-z][a-z0-9_]*\.[^\[\]]*)\]`)

// parseSentence parses a template with optional parts.
func parseSentence(template string, names []string, words map[string]wordList) (text, error) {
	var out text
	at := 0
	for _, m := range optional.FindAllStringSubmatchIndex(template, -1) {
		before, err := parseText(template[at:m[0]], names, words)
		if err != nil {
			return nil, err
		}
		inner, err := parseText(template[m[2]:m[3]], names, words)
		if err != nil {
			return nil, err
		}
		out, at = append(append(out, before...), part{show: inner.whole}), m[1]
	}
	rest, err := parseText(template[at:], names, words)
	return append(out, rest...), err
}

// parseValue parses one placeholder. KEY is the first finding's value, *KEY the values of all findings, and count the
// number of findings. KEY|OTHER uses the first value that is not empty: a peer may have only an address.
func parseValue(name, key, format, argument string, names []string, words map[string]wordList,
) (func(s scope) string, error) {
	if !slices.Contains(names, name) {
		return nil, fmt.Errorf("no selection %q", name)
	}
	show, known := formats[format]
	if format == "word" {
		list, has := words[argument]
		if !has {
			return nil, fmt.Errorf("no list of words %q", argument)
		}
		show, known = list.show, true
	}
	if format == "match" {
		pattern, err := regexp.Compile(argument)
		if err != nil {
			return nil, err
		}
		show, known = func(v any, _ string) string { return matched(pattern, plainValue(v)) }, true
	}
	if !known {
		return nil, fmt.Errorf("no format %q", format)
	}
	return func(s scope) string {
		found := s.found[name]
		if key == "count" {
			return show(float64(len(found)), argument)
		}
		if rest, all := strings.CutPrefix(key, "*"); all {
			var values []string
			for _, r := range found {
				if one := show(firstValue(r, rest), argument); one != "" && !slices.Contains(values, one) {
					values = append(values, one)
				}
			}
			return strings.Join(values, separator(format, argument))
		}
		if len(found) == 0 {
			return ""
		}
		return show(firstValue(found[0], key), argument)
	}, nil
}

// matched returns the part of a text that a pattern or the pattern's first group matches, such as a name in a foreign
// message.
func matched(pattern *regexp.Regexp, text string) string {
	if found := pattern.FindStringSubmatch(text); found != nil {
		return found[min(1, len(found)-1)]
	}
	return ""
}

// formats are the formats of values.
var formats = map[string]func(v any, argument string) string{
	"":        func(v any, _ string) string { return plainValue(v) },
	"seconds": func(v any, _ string) string { return diagnose.Seconds(number(v)).String() },
	"ms":      func(v any, _ string) string { return diagnose.Milliseconds(number(v)).String() },
	"lasting": func(v any, _ string) string { return diagnose.Lasting(number(v)) },
	"mib":     func(v any, _ string) string { return fmt.Sprintf("%.0f MiB", number(v)/(1<<20)) },
	"one":     func(v any, _ string) string { return fmt.Sprintf("%.1f", number(v)) },
	"quoted":  func(v any, _ string) string { return strconv.Quote(plainValue(v)) },
	"family":  func(v any, _ string) string { return diagnose.FamilyName(int(number(v))) },
	"before":  func(v any, cut string) string { out, _, _ := strings.Cut(plainValue(v), cut); return out },
	"after":   func(v any, cut string) string { _, out, _ := strings.Cut(plainValue(v), cut); return out },
	"first":   firstOf,
	"joined":  joinedBy,
	// plural formats a number and a noun: 1 pod, 3 pods.
	"plural": func(v any, noun string) string { return diagnose.CountOf(number(v), noun) },
}

// joinedBy formats a list with a separator other than a comma.
func joinedBy(v any, by string) string {
	if list := listOf(v); len(list) > 0 {
		return strings.Join(list, separator("joined", by))
	}
	return plainValue(v)
}

// separator returns the separator of a list in a sentence: a comma or, for the format "joined", another mark or word.
func separator(format, by string) string {
	switch {
	case format != "joined":
		return ", "
	case strings.ContainsAny(by, ",;:"):
		return by + " "
	}
	return " " + by + " "
}

// firstOf formats the first few entries of a list.
func firstOf(v any, most string) string {
	n, err := strconv.Atoi(most)
	list := listOf(v)
	if err == nil && len(list) > n {
		list = list[:n]
	}
	return strings.Join(list, ", ")
}

func (w wordList) show(v any, _ string) string {
	if replacement, has := w[plainValue(v)]; has {
		return replacement
	}
	return w["other"]
}
