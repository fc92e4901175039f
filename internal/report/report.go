// Package report turns a run's events into reports: the screen for people, a document with the verdict, or the stream
// itself.
//
//	events of a run (live, or from Load) -> Sink of a Format -> table, JSON, Markdown, JUnit, HTML, ...
//	two runs -> Diff -> Difference -> WriteDiff
//	a transcript -> Latest: the last answer to each check -> a run
//
// Formats is the entry point: it lists every format with its sink. A sink sees the same events, in
// the same order, whether they are live or from a file. The package does not find causes (package diagnose does) or
// open files (package output does).
package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Exit codes of the client. They are part of its interface.
const (
	ExitHealthy    = 0
	ExitTool       = 1 // the tool itself failed
	ExitUsage      = 2
	ExitFault      = 3
	ExitWarnings   = 4 // only with --fail-on=warn
	ExitIncomplete = 5 // no verdict: some checks have no answer
	ExitPipe       = 141
)

// An ExitCode is an exit code of the client with its meaning.
type ExitCode struct {
	Code  int
	Means string
}

// ExitCodes lists all exit codes. Help, manual pages and docs/README.md use this list.
func ExitCodes() []ExitCode {
	return []ExitCode{
		{ExitHealthy, "healthy, or warnings only"},
		{ExitTool, "the tool failed, could not write an output, or could not use the API (unreachable or access denied)"},
		{ExitUsage, "wrong usage, or unknown node"},
		{ExitFault, "a fault was found"},
		{ExitWarnings, "only warnings, with --fail-on warn"},
		{ExitIncomplete, "incomplete: no verdict, because an answer is missing or you declined to place probes"},
		{130, "interrupted by Ctrl-C; cleanup completed"},
		{ExitPipe, "stdout was closed early (for example by head); cleanup completed"},
		{143, "ended by SIGTERM; cleanup completed"},
	}
}

// A Sink receives a run's events as they arrive. The verdict is the last event.
type Sink interface {
	Event(probe.Event) error
}

// SinkFunc is a function that is a Sink.
type SinkFunc func(probe.Event) error

// Event calls the function.
func (f SinkFunc) Event(ev probe.Event) error { return f(ev) }

// Tally counts a run's results and concludes the verdict.
type Tally struct {
	began    time.Time
	counts   probe.Counts
	open     int // number of streams that have begun but not ended
	answered int // number of good or bad answers within streams, without the client's own results
	proven   bool
	broken   bool // a proven cause breaks traffic
}

// NewTally starts counting now.
func NewTally() *Tally { return &Tally{began: time.Now(), counts: probe.Counts{}} }

// Add counts an event.
func (t *Tally) Add(ev probe.Event) {
	switch ev.Type {
	case probe.EventStart:
		t.open++
	case probe.EventEnd:
		t.open--
	case probe.EventCause:
		seen := slices.ContainsFunc(ev.Cause.For, func(c probe.Clue) bool { return c.Status == probe.Fail })
		t.proven = t.proven || ev.Cause.Confidence == probe.High && seen
		t.broken = t.broken || ev.Cause.Confidence == probe.High && ev.Cause.Fault
	case probe.EventResult:
		t.counts[ev.Result.Status]++
		if t.open > 0 && ev.Result.Status != probe.Skip && ev.Result.Status != probe.Unknown {
			t.answered++
		}
	}
}

// The verdicts of a run.
const (
	WordHealthy    = "healthy"
	WordWarnings   = "warnings"
	WordIncomplete = "incomplete" // some answers are missing
	WordFault      = "fault"
)

// The verdicts of preflight, in addition to incomplete.
const (
	WordReady    = "ready"
	WordNotReady = "not ready"
)

// Interrupted is the text for an interrupted run.
const Interrupted = "the run was interrupted, so the results are incomplete"

// Verdicts lists the verdicts of a run, best first, then those of preflight.
func Verdicts() []string {
	return []string{WordHealthy, WordWarnings, WordIncomplete, WordFault, WordReady, WordNotReady}
}

// Verdict returns the verdict. A fault outweighs missing answers, and missing answers outweigh warnings. A fault is
// observed on the node, or proven by other nodes or by a cause that breaks traffic. If failOnWarn is set, warnings have
// their own exit code.
func (t *Tally) Verdict(failOnWarn bool) probe.Verdict {
	v := probe.Verdict{Word: WordHealthy, Exit: ExitHealthy, Counts: t.counts, Elapsed: time.Since(t.began),
		Strict: failOnWarn}
	switch {
	case t.counts[probe.Fail] > 0, t.broken, t.proven && (t.counts[probe.Unknown] > 0 || t.answered == 0):
		v.Word, v.Exit = WordFault, ExitFault
	case t.counts[probe.Unknown] > 0, t.open > 0, t.answered == 0:
		v.Word, v.Exit = WordIncomplete, ExitIncomplete
	case t.counts[probe.Warn] > 0:
		v.Word = WordWarnings
		if failOnWarn {
			v.Exit = ExitWarnings
		}
	}
	return v
}

// summary returns a text such as "2 fail (bgp-session, pod-ping), 1 unknown (node-load), 40 ok".
func summary(c probe.Counts, named map[probe.Status][]string) string {
	var parts []string
	for _, s := range probe.Statuses() {
		if c[s] == 0 {
			continue
		}
		part := fmt.Sprintf("%d %s", c[s], s)
		if names := named[s]; len(names) > 0 && !quiet(s) {
			part += " (" + strings.Join(names, ", ") + ")"
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return "nothing was checked"
	}
	return strings.Join(parts, ", ")
}

// answers returns the number of answers in a summary and the number of their checks. A check may have an answer for
// each target, but a list of names contains it only once.
func answers(c probe.Counts, checks int) string {
	text := plural(c.Total(), "answer")
	if checks > 0 {
		text += " to " + plural(checks, "check")
	}
	return text
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Head returns the known parts of a report's subject:
// worker-3 of prod-eu (https://10.0.0.1:6443), 2026-11-21 21:23:57 UTC.
func Head(node string, c *probe.Cluster, at time.Time) string {
	if c != nil {
		node += " of " + c.String()
	}
	if !at.IsZero() {
		node += at.UTC().Format(", 2006-01-02 15:04:05 UTC")
	}
	return printable(node)
}

// appendNew appends a name, unless the name is empty or already in the list.
func appendNew(seen []string, name string) []string {
	if name == "" || slices.Contains(seen, name) {
		return seen
	}
	return append(seen, name)
}

// methodLabel returns the name that --via takes for an access method.
func methodLabel(method string) string {
	if method == probe.MethodBaseline {
		return "outside"
	}
	return method
}
