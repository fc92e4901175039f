package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// shownCauses is how many causes a table shows: more than three answer nothing.
const shownCauses = 3

// width of the words at the margin of a cause.
const widthWord = 9

// causeLines are the lines about a cause, without the commands of its fix. Lines longer than width
// are broken at spaces; 0 = none are.
func causeLines(c probe.Cause, width int) []string {
	var out []string
	line := func(word string, texts ...string) { out = append(out, worded(word, texts, width)...) }
	line("what", fmt.Sprintf("%s (confidence: %s)", c.Says, c.Confidence))
	line("seen", mostSeen(c.For)...)
	line("but", mostSeen(c.Against)...)
	if len(c.RuledOut) > 0 {
		line("ruled out", strings.Join(c.RuledOut, ", "))
	}
	line("unknown", c.Missing...)
	var follows []string
	for _, f := range c.Explains {
		follows = append(follows, cmp.Or(f.Cause, fmt.Sprintf("%d %s", f.Count, f.Check)))
	}
	if len(follows) > 0 {
		line("also", "accounts for: "+strings.Join(follows, ", "))
	}
	line("fix", c.Fix.Says)
	line("touches", c.Fix.Radius) // before commands that somebody may paste
	return out
}

// worded are lines with a word at the margin of the first, broken at spaces where they are longer than width.
func worded(word string, texts []string, width int) []string {
	var out []string
	for _, text := range texts {
		lines := []string{printable(text)}
		if width > 0 {
			lines = probe.Wrap(lines[0], width-widthWord-1)
		}
		for _, l := range lines {
			out = append(out, fmt.Sprintf("%-*s %s", widthWord, word, l))
			word = ""
		}
	}
	return out
}

// most is how many observations of a kind are shown.
const most = 5

// mostSeen are the first observations in words.
func mostSeen(clues []probe.Clue) []string {
	out := seen(clues, true)
	if len(out) > most {
		out = append(out[:most:most], fmt.Sprintf("… %d more with -o json", len(out)-most))
	}
	return out
}

func confidenceStatus(c probe.Confidence) probe.Status {
	if c == probe.High {
		return probe.Fail
	}
	return probe.Warn
}
