package report

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/calico-probe/calico-probe/probe"
)

// Changes shows the answers to questions that are asked again and again: the first ones
// whole, then only what is not as it was. An answer without a status is a line of text
// that a tool wrote, whose first word is its target.
type Changes struct {
	t      table
	before []probe.Result // nil = none yet
	lost   bool           // the last time nobody answered
	last   time.Time      // when something was shown
	rounds int            // since then
}

// quietFor is after how long without a change a line says that one still looks.
const quietFor = time.Minute

// NewChanges begins to compare.
func NewChanges(colour bool) *Changes { return &Changes{t: table{paper: paper{colour: colour}}} }

// Round takes the answers of one more time, gives the lines that show what has changed, and
// tells whether anything has; lost says why they are not whole, "" when they are: then what
// is missing is not known, and neither gone nor as it was.
func (c *Changes) Round(now time.Time, answers []probe.Result, lost string) (text string, changed bool) {
	var b strings.Builder
	row := func(word string, status probe.Status, r probe.Result, saw string) {
		fmt.Fprintf(&b, "%s  %s %-*s %-*s  %s\n", now.Format(time.TimeOnly),
			c.t.paint(status, fmt.Sprintf("%-*s", widthStatus, word)),
			widthCheck, r.Check, widthTarget, printable(cmp.Or(strings.TrimSpace(r.Target+" "+fromOf(r)), "-")), printable(saw))
	}
	if c.last.IsZero() {
		c.last = now
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
	answers = sorted(answers)
	old, gone := paired(c.before, answers)
	for at, is := range answers {
		was := old[at]
		switch {
		case first:
			row(string(is.Status), is.Status, is, is.Saw)
		case was == nil:
			row(string(is.Status), is.Status, is, is.Saw+" (new)")
		case was.Status != is.Status:
			row(string(is.Status), is.Status, is, fmt.Sprintf("%s (was %s)", is.Saw, was.Status))
		case meaning(*was) != meaning(is):
			row(string(is.Status), is.Status, is, is.Saw)
		}
	}
	// A tool that fails without a word has not said that its lines are gone.
	mute := slices.ContainsFunc(answers, func(r probe.Result) bool { return r.Status == probe.Fail }) &&
		!slices.ContainsFunc(answers, isLine)
	var kept []probe.Result
	for _, was := range gone {
		if lost != "" || mute && isLine(was) {
			kept = append(kept, was)
			continue
		}
		row("gone", probe.Skip, was, strings.TrimSpace("was "+string(was.Status))+": "+was.Saw)
	}
	if lost == "" || len(answers)+len(kept) > 0 {
		c.before = append(append([]probe.Result{}, answers...), kept...)
	}
	c.rounds++
	changed = b.Len() > 0
	if !changed && now.Sub(c.last) >= quietFor {
		fmt.Fprintf(&b, "%s  nothing changed for %v, checked %d times\n", now.Format(time.TimeOnly),
			now.Sub(c.last).Round(time.Second), c.rounds)
	}
	if b.Len() > 0 {
		c.last, c.rounds = now, 0
	}
	return b.String(), changed
}

// isLine tells a line that a tool wrote from the answer to a check.
func isLine(r probe.Result) bool { return r.Status == "" }

// sorted puts answers in an order of their own: probes answer as they can.
func sorted(of []probe.Result) []probe.Result {
	out := slices.Clone(of)
	slices.SortStableFunc(out, func(a, b probe.Result) int {
		return cmp.Or(cmp.Compare(a.Check, b.Check), cmp.Compare(a.Target, b.Target), cmp.Compare(a.From, b.From))
	})
	return out
}

// paired finds what each answer was before, nil = it is new, and what is gone. Of several
// to one question, such as lines that begin alike, those belong together that say the
// same; then answers of checks in their order. Which of several lines became which other
// one nobody knows.
func paired(before, now []probe.Result) (was []*probe.Result, gone []probe.Result) {
	question := func(r probe.Result) string {
		return strings.Join([]string{r.Check, r.Target, r.From, fmt.Sprint(isLine(r))}, "|")
	}
	whole := func(r probe.Result) string { return question(r) + "|" + string(r.Status) + "|" + meaning(r) }
	was = make([]*probe.Result, len(now))
	taken := make([]bool, len(before))
	match := func(name func(probe.Result) string, fits func(probe.Result) bool) {
		left := map[string][]int{}
		for i, r := range before {
			if !taken[i] {
				left[name(r)] = append(left[name(r)], i)
			}
		}
		for i, r := range now {
			if was[i] != nil || !fits(r) {
				continue
			}
			if at := left[name(r)]; len(at) > 0 {
				was[i], taken[at[0]], left[name(r)] = &before[at[0]], true, at[1:]
			}
		}
	}
	match(whole, func(probe.Result) bool { return true })
	several := map[string]bool{}
	for _, of := range [][]probe.Result{before, now} {
		seen := map[string]bool{}
		for _, r := range of {
			several[question(r)] = several[question(r)] || seen[question(r)]
			seen[question(r)] = true
		}
	}
	match(question, func(r probe.Result) bool { return !isLine(r) || !several[question(r)] })
	for i, r := range before {
		if !taken[i] {
			gone = append(gone, r)
		}
	}
	return was, gone
}

// meaning is what an answer says, without what moves by itself.
func meaning(r probe.Result) string {
	if isLine(r) {
		return lineMeaning(r.Saw)
	}
	return sentenceMeaning(r.Saw)
}

// sentenceMeaning is a sentence without its numbers: times, ages and counters grow by
// themselves. Addresses and names that have digits in them stay, and so does the 0 of a
// count: none is another thing than some.
func sentenceMeaning(saw string) string {
	words := strings.Fields(saw)
	for i, word := range words {
		w := bare(word)
		_, notAddr := netip.ParseAddr(w)
		_, notPrefix := netip.ParsePrefix(w)
		_, notPort := netip.ParseAddrPort(strings.TrimRight(w, ":"))
		next := ""
		if i+1 < len(words) {
			next = strings.Trim(words[i+1], ",;:.()")
		}
		none := w == "0" && !slices.Contains([]string{"ms", "s", "min", "h", "%", "MB", "kB"}, next) &&
			!strings.Contains(word, "%")
		if w == "" || w[0] < '0' || w[0] > '9' || notAddr == nil || notPrefix == nil || notPort == nil || none {
			continue
		}
		words[i] = strings.Replace(word, w, "#", 1)
	}
	return strings.Join(words, " ")
}

// bare is a word without what stands around it.
func bare(word string) string {
	return strings.TrimFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != ':' || r > unicode.MaxASCII
	})
}

// What moves by itself in what tools write: times, ages and hours as they and BIRD write
// them, amounts of bytes, and counters or timers that stand as 3/240. A number that stands
// alone is as likely an MTU, a metric, a process, the restarts of a container or a part of
// its ID, which do not.
var (
	aTime   = regexp.MustCompile(`^(\d{1,9}(\.\d+)?(ns|us|µs|ms|s|m|h|d|w|y))+$`)
	anHour  = regexp.MustCompile(`^(\d{1,2}:\d\d(:\d\d(\.\d+)?)?|\d{4}-\d\d-\d\d):?$`)
	aSize   = regexp.MustCompile(`^\d+(\.\d+)?([kKMGTPE]i?B?|B)$`)
	aRatio  = regexp.MustCompile(`^\d+(\.\d+)?[a-zµ]*(/\d+(\.\d+)?[a-zµ]*)+$`)
	aNumber = regexp.MustCompile(`^\d+(\.\d+)?$`)
	aCount  = regexp.MustCompile(`([1-9][\d.]*|0\.\d+)[a-zA-Zµ]*`)
)

// moves are the words after a number that moves: units, and the types of DNS records,
// before which their time to live stands.
var moves = []string{
	"ns", "us", "µs", "ms", "s", "sec", "seconds", "min", "minutes", "h", "hours", "days", "kB", "MB", "GB", "KiB",
	"MiB", "GiB",
	"A", "AAAA", "CNAME", "MX", "NS", "PTR", "SOA", "SRV", "TXT",
}

// lineMeaning is a line that a tool wrote without what moves by itself in it.
func lineMeaning(line string) string {
	words := strings.Fields(line)
	after := ""
	for i := len(words) - 1; i >= 0; i-- {
		word := words[i]
		w := bare(word)
		switch {
		case i > 0 && words[i-1] == "from": // the port this side was given
			if a, err := netip.ParseAddrPort(strings.Trim(word, ",;")); err == nil {
				words[i] = a.Addr().String()
			}
		case w == "" || w[0] < '0' || w[0] > '9':
		case aTime.MatchString(w), anHour.MatchString(w), aNumber.MatchString(w) && slices.Contains(moves, after):
			words[i] = strings.Replace(word, w, "#", 1)
		case aSize.MatchString(w), aRatio.MatchString(w):
			words[i] = strings.Replace(word, w, aCount.ReplaceAllString(w, "#"), 1)
		}
		after = w
	}
	return strings.Join(words, " ")
}
