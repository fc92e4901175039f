package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// Why explains one rule's answer about a run: the checks that its match read, the cases that it found, and their
// outcome.
type Why struct {
	Reads []Read // the checks that the match read, in order
	Steps []Step // of a match in data
	Cases []CaseWhy
	Crash string // the rule's panic; "" = no panic
}

// Read is a check that a match read, with the number of its results in this run.
type Read struct {
	Check  string
	Counts map[probe.Status]int // numbers of its results on the node in question, by status
	Others int                  // number of its results on other nodes
}

// Step is one line of a match in data: a selection with the number of its findings, or a case and whether it holds.
type Step struct {
	Text  string
	Found int
	Case  bool
	Holds bool
}

// CaseWhy is a case of a match and its outcome.
type CaseWhy struct {
	About   string
	For     []Clue
	Against []Clue
	Score   int
	// Became is "named", "outweighed", "follows from CAUSE", or "left out".
	Became string
}

// WhyOf explains a rule's answer about findings. If the ID is unknown, it returns false.
func WhyOf(f Findings, suite Suite, id string) (Why, bool) {
	rule := suite.Rule(id)
	if rule == nil {
		return Why{}, false
	}
	ready := Ready(f, suite)
	if rule.Residual {
		all, _ := matched(ready, false)
		ready = unproven(ready, all)
	}
	var reads []string
	ready.reads = &reads
	var why Why
	var cases []Case
	if crash := probe.Recovered(func() error {
		cases = rule.Match(ready)
		return nil
	}); crash != nil {
		why.Crash = crash.Error()
	}
	ready.reads = nil
	for _, check := range reads {
		why.Reads = append(why.Reads, readOf(ready, check))
	}
	if rule.Trace != nil && why.Crash == "" { // the trace would panic at the same place
		why.Steps = rule.Trace(ready)
	}
	d := Explain(f, suite)
	for _, c := range cases {
		why.Cases = append(why.Cases, becameOf(ready, d, rule, c))
	}
	return why, true
}

func readOf(f Findings, check string) Read {
	out := Read{Check: check, Counts: map[probe.Status]int{}, Others: len(f.Elsewhere(check))}
	for _, r := range f.Of(check) {
		out.Counts[r.Status]++
	}
	return out
}

// becameOf returns the outcome of a rule's case in a diagnosis.
func becameOf(f Findings, d Diagnosis, rule *Rule, c Case) CaseWhy {
	got, holds := weigh(f, rule, c)
	out := CaseWhy{About: c.About, For: c.For, Score: got.score,
		Against: slices.Concat(c.Against, contradicted(f, rule, c))}
	if !holds {
		out.Became = "outweighed"
		return out
	}
	name := strings.TrimSpace(rule.ID + " " + c.About)
	for _, cause := range d.Causes {
		if cause.ID == rule.ID && (cause.About == c.About || strings.Contains(cause.About, c.About)) {
			out.Became = "named"
			return out
		}
		if slices.ContainsFunc(cause.Explains, func(e probe.Follows) bool { return e.Cause == name }) {
			out.Became = fmt.Sprintf("follows from %s", strings.TrimSpace(cause.ID+" "+cause.About))
			return out
		}
	}
	out.Became = "left out"
	return out
}
