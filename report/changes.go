package report

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/calico-probe/calico-probe/probe"
)

// Changes shows the answers to questions that are asked again and again: the first ones
// whole, then only what is not as it was.
type Changes struct {
	w      io.Writer
	t      table
	before []probe.Result // nil = none yet
	lost   bool           // the last time nobody answered
	last   time.Time      // when something was written
	rounds int            // since then
}

// quietFor is after how long without a change a line says that one still looks.
const quietFor = time.Minute

// NewChanges shows changes on w.
func NewChanges(w io.Writer, colour bool) *Changes {
	return &Changes{w: w, t: table{colour: colour}}
}

// Round takes the answers of one more time; lost says why they are not whole, "" when
// they are: then what is missing is not known, and neither gone nor as it was.
func (c *Changes) Round(now time.Time, answers []probe.Result, lost string) error {
	var b strings.Builder
	row := func(word string, status probe.Status, r probe.Result, saw string) {
		fmt.Fprintf(&b, "%s  %s %-*s %-*s  %s\n", now.Format(time.TimeOnly), c.t.paint(status, fmt.Sprintf("%-*s", widthStatus, word)),
			widthCheck, r.Check, widthTarget, printable(cmp.Or(strings.TrimSpace(r.Target+" "+fromOf(r)), "-")), printable(saw))
	}
	client := probe.Result{Check: probe.CheckAnswered}
	switch {
	case lost != "" && !c.lost:
		row(string(probe.Unknown), probe.Unknown, client, lost)
	case lost == "" && c.lost:
		row(string(probe.OK), probe.OK, client, "it answers again")
	}
	c.lost = lost != ""
	first := c.before == nil
	old, names := byName(c.before), []string{}
	answers = sorted(answers)
	for at, name := range named(answers) {
		names = append(names, name)
		is := answers[at]
		was, there := old[name]
		switch {
		case first:
			row(string(is.Status), is.Status, is, is.Saw)
		case !there:
			row(string(is.Status), is.Status, is, is.Saw+" (new)")
		case was.Status != is.Status:
			row(string(is.Status), is.Status, is, fmt.Sprintf("%s (was %s)", is.Saw, was.Status))
		case meaning(was.Saw) != meaning(is.Saw):
			row(string(is.Status), is.Status, is, is.Saw)
		}
	}
	var kept []probe.Result
	for at, name := range named(c.before) {
		was := c.before[at]
		switch {
		case slices.Contains(names, name):
		case lost != "":
			kept = append(kept, was)
		default:
			row("gone", probe.Skip, was, "was "+string(was.Status)+": "+was.Saw)
		}
	}
	if lost == "" || len(answers)+len(kept) > 0 {
		c.before = sorted(append(append([]probe.Result{}, answers...), kept...))
	}
	c.rounds++
	if b.Len() == 0 && now.Sub(c.last) >= quietFor {
		fmt.Fprintf(&b, "%s  nothing changed for %v, asked %d times\n", now.Format(time.TimeOnly), now.Sub(c.last).Round(time.Second), c.rounds)
		c.last, c.rounds = now, 0
	}
	if b.Len() == 0 {
		return nil
	}
	c.last, c.rounds = now, 0
	if _, err := io.WriteString(c.w, b.String()); err != nil {
		return fmt.Errorf("writing what changed: %w", err)
	}
	return nil
}

// sorted puts answers in an order of their own: probes answer as they can.
func sorted(of []probe.Result) []probe.Result {
	out := slices.Clone(of)
	slices.SortStableFunc(out, func(a, b probe.Result) int {
		return cmp.Or(cmp.Compare(a.Check, b.Check), cmp.Compare(a.Target, b.Target), cmp.Compare(a.From, b.From), cmp.Compare(meaning(a.Saw), meaning(b.Saw)))
	})
	return out
}

// named gives each answer a name that the next one to the same question has too: check,
// target and where from, and which of several.
func named(of []probe.Result) []string {
	var out []string
	seen := map[string]int{}
	for _, r := range of {
		name := strings.Join([]string{r.Check, r.Target, r.From}, "|")
		seen[name]++
		out = append(out, fmt.Sprintf("%s|%d", name, seen[name]))
	}
	return out
}

func byName(of []probe.Result) map[string]probe.Result {
	out := map[string]probe.Result{}
	for i, name := range named(of) {
		out[name] = of[i]
	}
	return out
}

// meaning is a sentence without its numbers: times, ages and counters grow by
// themselves. Addresses and names that have digits in them stay, and so does the 0 of a
// count: none is another thing than some.
func meaning(saw string) string {
	words := strings.Fields(saw)
	for i, word := range words {
		w := strings.TrimFunc(word, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != ':' || r > unicode.MaxASCII
		})
		_, notAddr := netip.ParseAddr(w)
		_, notPrefix := netip.ParsePrefix(w)
		_, notPort := netip.ParseAddrPort(strings.TrimRight(w, ":"))
		next := ""
		if i+1 < len(words) {
			next = strings.Trim(words[i+1], ",;:.()")
		}
		none := w == "0" && !slices.Contains([]string{"ms", "s", "min", "h", "%", "MB", "kB"}, next) && !strings.Contains(word, "%")
		if w == "" || w[0] < '0' || w[0] > '9' || notAddr == nil || notPrefix == nil || notPort == nil || none {
			continue
		}
		words[i] = strings.Replace(word, w, "#", 1)
	}
	return strings.Join(words, " ")
}
