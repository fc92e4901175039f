package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Latest keeps the latest answers to each check in a session, both the node's own and those from other nodes about it.
// A report during a session must not mix old and new answers.
//
// An asked event begins a round. It drops all earlier answers to the same checks, for every target, together with the
// baseline nodes' answers that were compared with them. For the client's own results (the access method, incomplete
// answers) and for other checks, only the newest round is kept. A requested check without a complete answer becomes
// unknown: it loses its old answer, but does not disappear.
type Latest struct {
	Node string // the examined node

	round     int
	kept      []answer
	newest    map[string]int // the round of the kept answers, by node and check
	owed      []string       // checks that were requested from the node and still have no complete answer
	streams   []*streamed
	logs      []probe.Event
	version   string
	requested probe.Start // the client's start event for the last round
}

// answer is a result with its source.
type answer struct {
	probe.Event
	round int
	by    *streamed // nil = the client itself
}

// streamed is the last plan that a node answered by one access method.
type streamed struct {
	node, method string
	start, end   probe.Event
	open         bool // the last plan has not ended
	answered     []string
}

// Add records an event of the session. It ignores events about other nodes.
func (l *Latest) Add(ev probe.Event) {
	if ev.Node != l.Node && ev.For != l.Node {
		return
	}
	switch ev.Type {
	case probe.EventRecheck:
		l.begin(ev)
	case probe.EventStart:
		if ev.Start.Tool == "" {
			l.version = ev.Start.Version
			s := l.stream(ev)
			s.start, s.open, s.answered = ev, true, nil
		}
	case probe.EventEnd:
		if ev.End.Outcome == nil {
			l.end(ev)
		}
	case probe.EventResult:
		l.result(ev)
	case probe.EventLog:
		if ev.Node == l.Node && len(l.logs) < maxLogs {
			l.logs = append(l.logs, ev)
		}
	}
}

// maxLogs is the maximum number of the probes' log lines to keep for a round and the tool calls after it.
const maxLogs = 1000

// begin starts a new round.
func (l *Latest) begin(ev probe.Event) {
	l.round++
	l.logs, l.requested = nil, *ev.Start
	repeated, around := ev.Start.Checks, ev.Method == probe.MethodBaseline
	l.drop(func(a answer) bool {
		return slices.Contains(repeated, a.Result.Check) || around && a.Method == probe.MethodBaseline
	})
	for _, id := range repeated {
		if !slices.Contains(l.owed, id) {
			l.owed = append(l.owed, id)
		}
	}
	for _, s := range l.streams {
		s.open = false // owed has its missing answers
	}
}

func (l *Latest) drop(old func(answer) bool) { l.kept = slices.DeleteFunc(l.kept, old) }

func (l *Latest) stream(ev probe.Event) *streamed {
	i := slices.IndexFunc(l.streams, func(s *streamed) bool { return s.node == ev.Node && s.method == ev.Method })
	if i < 0 {
		i = len(l.streams)
		l.streams = append(l.streams, &streamed{node: ev.Node, method: ev.Method})
	}
	return l.streams[i]
}

func (l *Latest) end(ev probe.Event) {
	s := l.stream(ev)
	s.end, s.open = ev, false
	if ev.Node == l.Node && !ev.End.Stopped { // a stopped answer may lack targets of any check
		l.owed = slices.DeleteFunc(l.owed, func(id string) bool { return slices.Contains(s.answered, id) })
	}
}

func (l *Latest) result(ev probe.Event) {
	of := ev.Node + " " + ev.Result.Check
	if l.newest == nil {
		l.newest = map[string]int{}
	}
	if l.newest[of] < l.round { // once per round, because a check may have very many answers
		l.newest[of] = l.round
		l.drop(func(a answer) bool { return a.Node == ev.Node && a.Result.Check == ev.Result.Check })
	}
	a := answer{Event: ev, round: l.round}
	if s := l.stream(ev); s.open && ev.Result.Check != probe.CheckPlaced && ev.Result.Check != probe.CheckAnswered {
		a.by = s
		if n := len(s.answered); n == 0 || s.answered[n-1] != ev.Result.Check {
			s.answered = append(s.answered, ev.Result.Check)
		}
	}
	l.kept = append(l.kept, a)
}

// Requested returns the checks that the node has answered or must still answer, in the order of the requests.
func (l *Latest) Requested() []string {
	var out []string
	add := func(id string) {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	for _, a := range l.kept {
		if a.Node == l.Node && a.by != nil {
			add(a.Result.Check)
		}
	}
	for _, id := range l.owed {
		add(id)
	}
	return out
}

// Answered returns those checks of Requested that have a complete answer other than unknown.
func (l *Latest) Answered() []string {
	return slices.DeleteFunc(l.Requested(), func(id string) bool {
		answers, _ := l.Of(id)
		return slices.Contains(l.owed, id) || !slices.ContainsFunc(answers,
			func(r probe.Result) bool { return r.Status != probe.Unknown })
	})
}

// Of returns the node's latest answers to a check, and the time when the oldest of them arrived.
func (l *Latest) Of(check string) (out []probe.Result, at time.Time) {
	for _, a := range l.kept {
		if a.Node == l.Node && a.Result.Check == check {
			if at.IsZero() || a.At.Before(at) {
				at = a.At
			}
			out = append(out, *a.Result)
		}
	}
	return out, at
}

// Oldest returns when the oldest of the node's answers arrived, or zero if there are no answers.
func (l *Latest) Oldest() time.Time {
	var at time.Time
	for _, a := range l.kept {
		if a.Node == l.Node && a.by != nil && (at.IsZero() || a.At.Before(at)) {
			at = a.At
		}
	}
	return at
}

// maxOwed is the maximum number of checks without a complete answer to name.
const maxOwed = 5

// Run returns the latest answers as one run without a verdict.
func (l *Latest) Run() Run {
	run := Run{Node: l.Node, Version: l.version, Events: slices.Clone(l.logs)}
	if s := l.requested; !s.Time.IsZero() {
		run.Events = slices.Insert(run.Events, 0, begun(l.Node, probe.Start{V: s.V, Version: s.Version, Run: s.Run,
			Time: s.Time, Cluster: s.Cluster}))
	}
	unknown := false
	for _, a := range l.kept {
		// settled by a complete answer since then
		settled := a.Result.Check == probe.CheckAnswered && a.Node == l.Node && len(l.owed) == 0 &&
			(a.round < l.round || !slices.Contains(notBelieved, a.Result.Facts.Str(probe.FactReason)))
		if a.by != nil || settled {
			continue
		}
		unknown = unknown || a.Node == l.Node && a.Result.Status == probe.Unknown
		run.Events = append(run.Events, a.Event)
	}
	for _, s := range l.streams {
		events, whole := []probe.Event{s.start}, !s.open && s.end.End != nil
		for _, a := range l.kept {
			if a.by == s {
				events = append(events, a.Event)
				whole = whole && (a.Node != l.Node || !slices.Contains(l.owed, a.Result.Check))
			}
		}
		if len(events) == 1 {
			continue
		}
		if whole {
			events = append(events, s.end)
		}
		run.Events = append(run.Events, events...)
	}
	if len(l.owed) > 0 && !unknown {
		names := strings.Join(l.owed[:min(len(l.owed), maxOwed)], ", ")
		if n := len(l.owed) - maxOwed; n > 0 {
			names += fmt.Sprintf(" and %d more", n)
		}
		r := probe.Found(probe.Unknown, "incomplete answer to: %s", names)
		r.Check = probe.CheckAnswered
		run.Events = append(run.Events, probe.Event{Type: probe.EventResult, Node: l.Node, Result: &r})
	}
	for i := range run.Events {
		run.Events[i].At, run.Events[i].For = time.Time{}, ""
	}
	return run
}

// notBelieved lists the reasons why an answer is incomplete although it has a result for each check. Only another
// request can change that.
var notBelieved = []string{probe.ReasonUnrequested, probe.ReasonTooMuch, probe.ReasonNewer}

// Took returns how long the current answers took.
func (l *Latest) Took() time.Duration {
	var took time.Duration
	for _, s := range l.streams {
		if s.node == l.Node && s.end.End != nil && slices.ContainsFunc(l.kept, func(a answer) bool { return a.by == s }) {
			took += s.end.End.Elapsed
		}
	}
	return took
}

// latestOf returns the answers about a node, and creates them if missing.
func latestOf(all []*Latest, ev probe.Event) ([]*Latest, *Latest) {
	node := cmp.Or(ev.For, ev.Node)
	i := slices.IndexFunc(all, func(l *Latest) bool { return l.Node == node })
	if i < 0 {
		i, all = len(all), append(all, &Latest{Node: node})
	}
	return all, all[i]
}
