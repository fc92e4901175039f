package causefile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
)

// add adds something to a case.
type add func(s scope, c *diagnose.Case)

// readAll reads a case and its additions.
func (m *matcher) readAll(c caseData) ([]add, error) {
	first, err := m.readMore(c.moreData)
	if err != nil {
		return nil, err
	}
	for i, also := range c.Also {
		holds, err := m.readIf(also.If)
		if err != nil {
			return nil, fmt.Errorf("also %d: if: %w", i+1, err)
		}
		if also.Instead != "" && also.Says != "" {
			return nil, fmt.Errorf("also %d: says and instead: use one of them", i+1)
		}
		more, err := m.readMore(also.moreData)
		if err != nil {
			return nil, fmt.Errorf("also %d: %w", i+1, err)
		}
		instead, err := parseSentence(also.Instead, m.names, m.words)
		if err != nil {
			return nil, fmt.Errorf("also %d: instead: %w", i+1, err)
		}
		first = append(first, func(s scope, c *diagnose.Case) {
			if !holds(s) {
				return
			}
			if len(instead) > 0 {
				c.Says = instead.in(s)
			}
			for _, one := range more {
				one(s, c)
			}
		})
	}
	return first, nil
}

// readMore reads the parts common to cases and additions.
func (m *matcher) readMore(d moreData) ([]add, error) {
	says, err := parseSentence(d.Says, m.names, m.words)
	if err != nil {
		return nil, fmt.Errorf("says: %w", err)
	}
	forIt, err := m.readClues(d.For)
	if err != nil {
		return nil, fmt.Errorf("for: %w", err)
	}
	against, err := m.readClues(d.Against)
	if err != nil {
		return nil, fmt.Errorf("against: %w", err)
	}
	covers, err := m.readCovers(d.Covers)
	if err != nil {
		return nil, fmt.Errorf("covers: %w", err)
	}
	args, err := m.readArgs(d.Args)
	if err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	fix, named := m.rule.Fixes[d.Fix]
	if shared, known := m.shared.Fixes[d.Fix]; !named && known {
		fix, named = shared, true
	}
	if d.Fix != "" && !named {
		return nil, fmt.Errorf("fix: no fix %q", d.Fix)
	}
	if named {
		m.rule.Fixes[d.Fix] = fix // the linter reads all fixes, including shared ones
	}
	return []add{func(s scope, c *diagnose.Case) {
		c.Says += says.in(s)
		c.For = append(c.For, forIt(s)...)
		c.Against = append(c.Against, against(s)...)
		c.Covers = append(c.Covers, covers(s)...)
		for _, of := range args {
			if c.Args == nil {
				c.Args = map[string]diagnose.Arg{}
			}
			maps.Copy(c.Args, of(s))
		}
		c.FixName = cmp.Or(d.Fix, c.FixName)
	}}, nil
}

// weights maps the words for weights to the weights of clues.
var weights = map[string]int{"proof": diagnose.Proof, "strong": diagnose.Strong, "hint": diagnose.Hint, "shows": 0}

// readClues reads clues. Each has a weight, a selection and an optional condition: "proof held if lease and not pods".
func (m *matcher) readClues(list clueList) (func(s scope) []diagnose.Clue, error) {
	var clues []func(s scope) []diagnose.Clue
	for _, text := range list {
		for part := range strings.SplitSeq(text, ",") {
			name, rest, _ := strings.Cut(strings.TrimSpace(part), " ")
			weight, known := weights[name]
			shared := m.shared.Weights[name]
			if !known && shared == nil {
				return nil, fmt.Errorf("%q does not begin with proof, strong, hint or shows", strings.TrimSpace(part))
			}
			rest, when, _ := strings.Cut(rest, " if ")
			of, err := m.selection(rest)
			if err != nil {
				return nil, err
			}
			holds, err := m.readIf(strings.ReplaceAll(when, " and ", ","))
			if err != nil {
				return nil, err
			}
			clues = append(clues, func(s scope) []diagnose.Clue {
				if !holds(s) {
					return nil
				}
				if shared != nil {
					return shared(s.Findings, of(s))
				}
				return diagnose.Clues(weight, of(s))
			})
		}
	}
	return func(s scope) []diagnose.Clue {
		var out []diagnose.Clue
		for _, c := range clues {
			out = append(out, c(s)...)
		}
		return out
	}, nil
}

// readCovers reads "CHECK", "CHECK/TARGET", "@NAME ARGUMENT..." or "each SELECTION". The last form covers only the
// results that the selection finds.
func (m *matcher) readCovers(list []string) (func(s scope) []diagnose.Cover, error) {
	var covers []func(s scope) []diagnose.Cover
	for _, text := range list {
		words := strings.Fields(text)
		if len(words) == 0 {
			return nil, errors.New("an empty one")
		}
		if name, shared := strings.CutPrefix(words[0], "@"); shared {
			of, known := m.shared.Covers[name]
			if !known {
				return nil, fmt.Errorf("no shared %q", words[0])
			}
			args, err := parseTexts(words[1:], m.names)
			if err != nil {
				return nil, err
			}
			covers = append(covers, func(s scope) []diagnose.Cover { return of(s.Findings, args.in(s)...) })
			continue
		}
		if rest, each := strings.CutPrefix(text, "each "); each {
			of, err := m.selection(rest)
			if err != nil {
				return nil, err
			}
			covers = append(covers, func(s scope) []diagnose.Cover { return coversOf(of(s)) })
			continue
		}
		check, about, _ := strings.Cut(text, "/")
		m.rule.Uses.Checks = append(m.rule.Uses.Checks, check)
		target, err := parseText(about, m.names, m.words)
		if err != nil {
			return nil, err
		}
		covers = append(covers, func(s scope) []diagnose.Cover {
			return []diagnose.Cover{{Check: check, About: target.in(s)}}
		})
	}
	return func(s scope) []diagnose.Cover {
		var out []diagnose.Cover
		for _, c := range covers {
			out = append(out, c(s)...)
		}
		return out
	}, nil
}

// coversOf covers each result individually.
func coversOf(found []diagnose.Finding) []diagnose.Cover {
	var out []diagnose.Cover
	for _, r := range found {
		out = append(out, diagnose.Cover{Check: r.Check, About: r.Target})
	}
	return out
}

// types are the types of values in a command.
var types = map[string]func(string) diagnose.Arg{
	"node": diagnose.NodeArg, "namespace": diagnose.NamespaceArg, "pod": diagnose.PodArg, "address": diagnose.AddressArg,
	"block": diagnose.BlockArg, "block-name": diagnose.BlockNameArg, "file": diagnose.FileArg,
	"device": diagnose.DeviceArg, "image": diagnose.ImageArg, "sysctl": diagnose.SysctlArg,
	"number":  func(text string) diagnose.Arg { return diagnose.NumberArg(parsed(text)) },
	"process": func(text string) diagnose.Arg { return diagnose.ProcessArg(parsed(text)) },
}

// argsFunc returns values for the names in a fix.
type argsFunc = func(s scope) map[string]diagnose.Arg

// readArgs reads the values that a fix uses. "@NAME: VALUE..." stands for several related values.
func (m *matcher) readArgs(args map[string]string) ([]argsFunc, error) {
	var out []argsFunc
	for name, typed := range args {
		var one argsFunc
		var err error
		if shared, named := strings.CutPrefix(name, "@"); named {
			one, err = m.readSharedArgs(shared, typed)
		} else {
			one, err = m.readArg(name, typed)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, one)
	}
	return out, nil
}

// readSharedArgs reads the arguments of a shared function that supplies values for a fix.
func (m *matcher) readSharedArgs(name, arguments string) (argsFunc, error) {
	of, known := m.shared.Args[name]
	if !known {
		return nil, errors.New("no such shared values")
	}
	m.rule.Uses.ArgsTogether = append(m.rule.Uses.ArgsTogether, of.Names...)
	texts, err := parseTexts(strings.Fields(arguments), m.names)
	return func(s scope) map[string]diagnose.Arg { return of.Of(s.Findings, texts.in(s)...) }, err
}

var (
	// standIn matches one or two words in capitals that replace a malformed value in a command.
	standIn = regexp.MustCompile(`^[A-Z]+(?:[:/=][A-Z]+)?$`)
	// constant matches literal text that a file may insert into a command. Such text has no special meaning in a shell.
	constant = regexp.MustCompile(`^[A-Za-z0-9._:/=@,-]+(?: [A-Za-z0-9._:/=@,-]+)*$`)
)

// readArg reads "TYPE VALUE", where VALUE is a template. TYPE is a type name, or "own" for constant text. In
// "name:WORD" and "word:WORD", WORD replaces a malformed value in a command. "unsure:WORD" is for values that only the
// node reports: in a command, WORD always replaces the value.
func (m *matcher) readArg(name, typed string) (argsFunc, error) {
	m.rule.Uses.Args = append(m.rule.Uses.Args, name)
	kind, template, found := strings.Cut(typed, " ")
	if !found {
		return nil, fmt.Errorf("%q has no type and value", typed)
	}
	value, err := parseText(template, m.names, m.words)
	if err != nil {
		return nil, err
	}
	kind, word, worded := strings.Cut(kind, ":")
	if worded && !standIn.MatchString(word) || kind == "own" && !constant.MatchString(template) {
		return nil, fmt.Errorf("%q: a command takes only plain words", typed)
	}
	make, known := types[kind]
	switch {
	case known && word == "":
	case kind == "name" && word != "":
		make = func(text string) diagnose.Arg { return diagnose.CheckedArg(text, areNames(text, word), word) }
	case kind == "word" && word != "":
		make = func(text string) diagnose.Arg { return diagnose.CheckedArg(text, isWord(text, word), word) }
	case kind == "unsure" && word != "":
		make = func(text string) diagnose.Arg { return diagnose.NodesWord(text, word) }
	case kind == "own":
		make = diagnose.OwnArg
	default:
		return nil, fmt.Errorf("no type %q", kind)
	}
	return func(s scope) map[string]diagnose.Arg { return map[string]diagnose.Arg{name: make(value.in(s))} }, nil
}

// areNames reports whether a text is a name, or two names if its stand-in has two words, such as NAMESPACE:NAME.
func areNames(text, word string) bool {
	if i := strings.IndexAny(word, ":/"); i >= 0 {
		first, second, both := strings.Cut(text, word[i:i+1])
		return both && diagnose.IsName(first) && diagnose.IsName(second)
	}
	return diagnose.IsName(text)
}

// isWord reports whether a text is a plain word. If its stand-in is KEY=VALUE, it may also be a label.
func isWord(text, word string) bool {
	if strings.Contains(word, "=") {
		text = strings.Replace(text, "=", "", 1)
	}
	return diagnose.IsWord(text)
}

// parsed returns the number in a text, or 0 if the text is not a number.
func parsed(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return n
}

// Always returns a CoverFunc that covers the same results for any findings.
func Always(covers []diagnose.Cover) CoverFunc {
	return func(diagnose.Findings, ...string) []diagnose.Cover { return covers }
}
