package prompt

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/calico-probe/calico-probe/internal/suggest"
)

// completing is the time limit for Tab. Words that are still unknown by then are not offered.
const completing = 400 * time.Millisecond

// completer completes the word at the cursor for liner. If there are several words, liner lists them and inserts their
// common prefix. No two descriptions begin with the same word and a blank, so liner never inserts a description.
func (s *Shell) completer(ctx context.Context) func(line string, pos int) (string, []string, string) {
	return func(line string, pos int) (string, []string, string) {
		runes := []rune(line)
		words, word, start, ok := unfinished(runes[:pos])
		if !ok {
			return "", nil, ""
		}
		ctx, cancel := context.WithTimeout(ctx, completing)
		defer cancel()
		described := map[string]string{}
		var texts []string
		for _, c := range s.candidates(ctx, words) {
			text, description, _ := strings.Cut(c, "\t")
			texts, described[text] = append(texts, text), description
		}
		found := Matching(readBack(texts), word)
		if len(found) == 1 {
			if pos == len(runes) || runes[pos] != ' ' {
				found[0] += " "
			}
			return string(runes[:start]), found, string(runes[pos:])
		}
		for i, text := range found {
			if d := described[text]; d != "" {
				found[i] += " (" + strings.Map(shown, d) + ")"
			}
		}
		return string(runes[:start]), found, string(runes[pos:])
	}
}

// shown returns a character of a description in a form that is safe for the terminal.
func shown(r rune) rune {
	if unicode.IsGraphic(r) {
		return r
	}
	return '?'
}

// readBack returns the texts that Parse reads as one word. Any other text could become a command when the user presses
// Enter, or could be invisible.
func readBack(texts []string) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		lines, err := Parse("x " + text + " y")
		return err != nil || len(lines) != 1 || lines[0].Pipe != "" ||
			!slices.Equal(lines[0].Words, []string{"x", text, "y"}) ||
			strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) })
	})
}

// candidates returns the words that may follow.
func (s *Shell) candidates(ctx context.Context, words []string) []string {
	if len(words) == 0 {
		return s.names()
	}
	c := s.named(words[0])
	if c == nil || c.Complete == nil {
		return nil
	}
	return c.Complete(ctx, words[1:])
}

// Matching returns the texts with the typed prefix. If there are none and only one text contains the typed part, it
// returns that text.
func Matching(texts []string, typed string) []string {
	var out, within []string
	for _, t := range texts {
		switch {
		case strings.HasPrefix(t, typed):
			out = append(out, t)
		case strings.Contains(t, typed):
			within = append(within, t)
		}
	}
	slices.Sort(out)
	slices.Sort(within)
	out, within = slices.Compact(out), slices.Compact(within)
	if len(out) == 0 && len(within) == 1 {
		return within
	}
	return out
}

// meant returns the text that the user probably meant; "" = none.
func meant(texts []string, typed string) string {
	best, by := "", len(typed)/3+1 // one letter in three may be wrong
	for _, t := range texts {
		if d := suggest.Distance(t, typed); d < len(t) && (d < by || d == by && best == "") {
			best, by = t, d
		}
	}
	if one := Matching(texts, typed); best == "" && len(one) == 1 {
		return one[0]
	}
	return best
}
