package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// shownCauses is the number of causes that a table shows: with more than three, it is not an answer.
const shownCauses = 3

// widthWord is the width of the words at the margin of a cause.
const widthWord = 9

// causeLines returns the lines about a cause, without the commands of its fix. It wraps lines at width. If width is 0,
// it does not wrap.
func causeLines(c probe.Cause, width int) []string {
	var out []string
	line := func(word string, texts ...string) { out = append(out, worded(word, texts, width)...) }
	line("what", fmt.Sprintf("%s (confidence: %s)", c.Says, c.Confidence))
	line("evidence", firstSeen(c.For)...)
	line("but", firstSeen(c.Against)...)
	line("unknown", c.Missing...)
	if text := follows(c); text != "" {
		line("explains", text)
	}
	line("fix", c.Fix.Says)
	line("touches", c.Fix.Radius) // before the commands: a user may paste those
	return out
}

// worded returns lines that are wrapped at width, with a word at the margin of the first line.
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

// maxSeen is the maximum number of observations of one kind to show.
const maxSeen = 5

// firstSeen returns the first observations as text.
func firstSeen(clues []probe.Clue) []string {
	out := seen(clues, true)
	if len(out) > maxSeen {
		out = append(out[:maxSeen:maxSeen], fmt.Sprintf("… %d more with -o json", len(out)-maxSeen))
	}
	return out
}

// follows returns a cause's consequences other than its evidence: bad answers by check, the most frequent first, then
// the causes that follow from it.
func follows(c probe.Cause) string {
	var checks, causes []string
	of := slices.Clone(c.Explains)
	slices.SortStableFunc(of, func(a, b probe.Follows) int { return cmp.Compare(b.Count, a.Count) })
	for _, f := range of {
		if f.Cause != "" {
			causes = append(causes, f.Cause)
			continue
		}
		checks = append(checks, fmt.Sprintf("%s %d", f.Check, f.Count))
	}
	switch len(causes) {
	case 0:
	case 1:
		checks = append(checks, "cause "+causes[0])
	default:
		checks = append(checks, "causes "+strings.Join(causes, ", "))
	}
	return strings.Join(checks, ", ")
}

func confidenceStatus(c probe.Confidence) probe.Status {
	if c == probe.High {
		return probe.Fail
	}
	return probe.Warn
}
