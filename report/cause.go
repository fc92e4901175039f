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

// cause prints one cause: what it is, the evidence, what it also accounts for, and the fix.
func (t *table) cause(b *strings.Builder, c probe.Cause) {
	t.causes++
	if t.first == nil {
		t.first = &c
	}
	if t.causes > shownCauses {
		return
	}
	fmt.Fprintf(b, "\n%s %s\n", t.paint(confidenceStatus(c.Confidence), fmt.Sprintf("CAUSE %d", t.causes)),
		printable(strings.TrimSpace(c.ID+" "+c.About)))
	for _, line := range causeLines(c, max(t.width-2, 0)) {
		fmt.Fprintf(b, "  %s\n", line)
	}
	t.commands(b, c)
}

// commands are those of a cause's fix.
func (t *table) commands(b *strings.Builder, c probe.Cause) {
	for _, block := range c.Fix.Blocks() {
		if block.If != "" {
			fmt.Fprintf(b, "  %-*s %s\n", widthWord, "only if", t.from(2+widthWord+1, block.If+":"))
		}
		for _, command := range block.Commands {
			mark := "$ "
			if strings.HasPrefix(command, "#") {
				mark = ""
			}
			fmt.Fprintf(b, "  %-*s %s\n", widthWord, "", printable(mark+command))
		}
	}
}

// causeLines are the lines about a cause, without the commands of its fix. Lines longer than width
// are broken at spaces; 0 = none are.
func causeLines(c probe.Cause, width int) []string {
	var out []string
	line := func(word string, texts ...string) { out = append(out, worded(word, texts, width)...) }
	line("what", fmt.Sprintf("%s (confidence: %s)", c.Says, c.Confidence))
	line("seen", seen(c.For)...)
	line("but", seen(c.Against)...)
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

// most is how many observations of a kind a table shows.
const most = 5

func seen(clues []probe.Clue) []string {
	var out []string
	for i, c := range clues {
		if i == most {
			return append(out, fmt.Sprintf("… %d more with -o json", len(clues)-i))
		}
		name := strings.TrimSpace(c.Check + " " + c.Target)
		if c.Node != "" {
			name += " on " + c.Node
		}
		out = append(out, name+": "+c.Saw)
	}
	return out
}

func confidenceStatus(c probe.Confidence) probe.Status {
	if c == probe.High {
		return probe.Fail
	}
	return probe.Warn
}
