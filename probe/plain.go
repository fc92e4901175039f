package probe

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Plain makes foreign text safe to print to a terminal. It removes all sequences that could move the cursor, change
// colours, set a window title or reverse the order of letters. It keeps newlines and tabs. Callers that print lines
// or columns replace them. It also removes invisible letters, which look like non-breaking spaces.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r': // a line ending as in HTTP
			return -1
		case unicode.Is(unicode.Zs, r):
			return ' '
		case r == '\n', r == '\t', unicode.IsGraphic(r) && !unicode.In(r, blank...):
			return r
		}
		return '?'
	}, s)
}

// blank contains the invisible letters and marks: Unicode's ignorable characters, variation selectors, and the empty
// Braille pattern.
var blank = []*unicode.RangeTable{unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector,
	{R16: []unicode.Range16{{Lo: 0x2800, Hi: 0x2800, Stride: 1}, {Lo: 0x17b4, Hi: 0x17b5, Stride: 1}}}}

// Line does the same as Plain, but returns one line.
func Line(s string) string { return strings.ReplaceAll(Plain(s), "\n", " ") }

// OneLine does the same as Line. It also collapses the runs of spaces that libraries put into error texts.
func OneLine(s string) string { return Plain(strings.Join(strings.Fields(s), " ")) }

// Age formats a duration like kubectl, with a single unit: 45s, 12m, 3h, 5d.
func Age(d time.Duration) string {
	switch day := 24 * time.Hour; {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/day)
	}
}

func lines(all []string) []string {
	out := slices.Clone(all)
	for i := range out {
		out[i] = Line(out[i])
	}
	return out
}

// Cleaned returns an event whose texts are each one line and safe for a terminal. They are still safe after decoding,
// because jq -r prints escaped JSON characters unescaped. It does not change a tool's output (out).
func (ev Event) Cleaned() Event {
	ev.Node, ev.Method, ev.For = Line(ev.Node), Line(ev.Method), Line(ev.For)
	if ev.Type == EventLog {
		ev.Text = Line(ev.Text)
	}
	if ev.Start != nil {
		s := ev.Start.clone()
		for _, text := range s.texts() {
			*text = Line(*text)
		}
		for _, list := range s.lists() {
			*list = lines(*list)
		}
		ev.Start = &s
	}
	if ev.Result != nil {
		r := ev.Result.cleaned()
		ev.Result = &r
	}
	if ev.End != nil && ev.End.Outcome != nil {
		end, r := *ev.End, ev.End.Outcome.cleaned()
		end.Outcome, ev.End = &r, &end
	}
	return ev
}

func (r Result) cleaned() Result {
	r.Check, r.Target, r.From, r.Saw, r.Lines = Line(r.Check), Line(r.Target), Line(r.From), Line(r.Saw), lines(r.Lines)
	if r.Facts != nil {
		facts := make(Facts, len(r.Facts))
		for key, v := range r.Facts {
			value, whole := cleanedValue(v, maxLevels)
			facts[Fact(Line(string(key)))], r.Cut = value, r.Cut || !whole
		}
		r.Facts = facts
	}
	return r
}

// maxLevels is the maximum nesting depth of lists and maps in a fact. Facts from our own checks have two levels. In a
// report, each level indents the lines inside it by two columns.
const maxLevels = 6

// cleanedValue returns the value of a fact with at most this many levels. The value may come from the wire or directly
// from a check. whole reports whether the value is complete.
func cleanedValue(v any, levels int) (out any, whole bool) {
	whole = true
	below := func(one any) any {
		clean, all := cleanedValue(one, levels-1)
		whole = whole && all
		return clean
	}
	switch v := v.(type) {
	case string:
		return Line(v), true
	case []string:
		return lines(v), true
	case []any:
		if levels == 0 {
			return mark, false
		}
		list := slices.Clone(v)
		for i := range list {
			list[i] = below(list[i])
		}
		return list, whole
	case map[string]any:
		if levels == 0 {
			return mark, false
		}
		held := make(map[string]any, len(v))
		for key, value := range v {
			held[Line(key)] = below(value)
		}
		return held, whole
	}
	return v, true
}

// Cut shortens a text to at most this many bytes. It ends the text with dots and never splits a letter.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const dots = "..."
	end := most - len(dots)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + dots
}
