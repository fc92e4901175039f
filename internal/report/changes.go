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

// Changes shows the answers of repeated checks and tools (the session's watch). It shows the first round completely,
// then only changes. If an answer has no status, it is a line of a tool's output, and the line's first word is its
// target.
type Changes struct {
	t      table
	before []probe.Result // nil if there was no earlier round
	lost   bool           // the last round had no answer
	last   time.Time      // when the last line was shown
	rounds int            // number of rounds since then
}

// quietFor is the time without changes after which a line shows that the watch still runs.
const quietFor = time.Minute

// NewChanges returns Changes before the first round.
func NewChanges(colour bool) *Changes { return &Changes{t: table{paper: paper{colour: colour}}} }

// Round compares a new round's answers with those of the last round. It returns the lines to show, and whether anything
// changed. lost is the reason why the answers are incomplete; "" = complete. If a round is incomplete, its missing
// answers are unknown: they count neither as gone nor as unchanged.
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
	// If a tool fails without output, this does not prove that its lines are gone.
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

// isLine reports whether a result is a line of a tool's output instead of a check's answer.
func isLine(r probe.Result) bool { return r.Status == "" }

// sorted returns answers in a fixed order, because the order in which probes answer varies.
func sorted(of []probe.Result) []probe.Result {
	out := slices.Clone(of)
	slices.SortStableFunc(out, func(a, b probe.Result) int {
		return cmp.Or(cmp.Compare(a.Check, b.Check), cmp.Compare(a.Target, b.Target), cmp.Compare(a.From, b.From))
	})
	return out
}

// paired returns the earlier version of each answer (nil = new answer), and the answers that are gone. Several answers
// may have the same key, such as lines with the same first word. Answers with the same meaning are paired first, then
// answers of checks in order. Several changed lines with the same first word are not paired, because their order proves
// nothing.
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

// meaning returns an answer's text without the parts that always change.
func meaning(r probe.Result) string {
	if isLine(r) {
		return lineMeaning(r.Saw)
	}
	return sentenceMeaning(r.Saw)
}

// sentenceMeaning returns a sentence without its numbers, because times, ages and counters always grow. It keeps
// addresses, names with digits, and a count of 0, because a change between zero and other counts matters.
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

// bare returns a word without the punctuation around it.
func bare(word string) string {
	return strings.TrimFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != ':' || r > unicode.MaxASCII
	})
}

// The parts of a tool's output that always change: times, ages and hours in the formats of the tools and of BIRD,
// amounts of bytes, and counters or timers such as 3/240. A number without a unit is kept, because it may be an MTU, a
// metric, a process ID, a restart count or a part of a container ID.
var (
	aTime   = regexp.MustCompile(`^(\d{1,9}(\.\d+)?(ns|us|µs|ms|s|m|h|d|w|y))+$`)
	anHour  = regexp.MustCompile(`^(\d{1,2}:\d\d(:\d\d(\.\d+)?)?|\d{4}-\d\d-\d\d):?$`)
	aSize   = regexp.MustCompile(`^\d+(\.\d+)?([kKMGTPE]i?B?|B)$`)
	aRatio  = regexp.MustCompile(`^\d+(\.\d+)?[a-zµ]*(/\d+(\.\d+)?[a-zµ]*)+$`)
	aNumber = regexp.MustCompile(`^\d+(\.\d+)?$`)
	aCount  = regexp.MustCompile(`([1-9][\d.]*|0\.\d+)[a-zA-Zµ]*`)
)

// moves are the words after a number that always changes: units, and the types of DNS records, which follow a record's
// time to live.
var moves = []string{
	"ns", "us", "µs", "ms", "s", "sec", "seconds", "min", "minutes", "h", "hours", "days", "kB", "MB", "GB", "KiB",
	"MiB", "GiB",
	"A", "AAAA", "CNAME", "MX", "NS", "PTR", "SOA", "SRV", "TXT",
}

// lineMeaning returns a line of a tool's output without the parts that always change.
func lineMeaning(line string) string {
	words := strings.Fields(line)
	after := ""
	for i := len(words) - 1; i >= 0; i-- {
		word := words[i]
		w := bare(word)
		switch {
		case i > 0 && words[i-1] == "from": // this side's ephemeral port
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
