package probe

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Intake filters a probe's answer to one request before anything is shown, stored or used for conclusions. An attacker
// who controls a node may want to mislead its users or exhaust their memory. Intake passes only requested data that a
// node can know. It cleans the texts and limits their length. It sets the fields that the client already knows: format
// version, run, node, access method, checks and counts. It drops and counts everything else. The answer is then
// incomplete.
type Intake struct {
	request Request
	pods    []string          // pods in which the checks may run
	states  map[string]string // states of nodes that are not ready, from the API
	checks  map[string]int    // the requested checks, with the number of answers
	started bool
	newer   int // the probe's format version, if it is newer than ours
	counts  Counts
	events  int // events passed so far, without output
	held    int // size of these events in bytes
	dropped int
	names   []string // names of some items that were dropped
	often   int      // number of answers to requested checks that were dropped because there were too many
}

// The limits for one request. In a BGP mesh of 2,000 nodes, a node sends about 6,000 answers to all checks, in less
// than 8 MiB of memory. The client creates several reports from them at once. So the client needs about ten times as
// much memory for a node that uses the whole limit. A tool's output does not count, because the client shows it but
// does not keep it.
const (
	MaxEvents = 20_000
	MaxHeld   = 8 << 20
)

// A check sends a few answers for each target, or for several hundred objects of the node. More answers would
// cost memory, and time in the rules that compare answers.
const (
	maxPerCheck  = 1000
	maxPerTarget = 4
)

// ErrTooMuch reports that a probe exceeds the limits of an answer. The client stops reading from it.
var ErrTooMuch = errors.New("its answer is too large")

// Values of FactReason: why an answer with an end event is incomplete.
const (
	ReasonTooMuch     = "too-much"  // the answer exceeded the limits
	ReasonUnrequested = "not-asked" // part of the answer was dropped
	reasonNoAnswer    = "no-answer" // a requested check has no answer
	ReasonNewer       = "newer"     // the probe uses a later version of the format
	ReasonCrashed     = "crashed"   // the client itself failed: a rule or the run crashed
)

// NewIntake returns the filter for the answer to a plan or a call. For any other request, it passes only logs.
func NewIntake(request Request) *Intake {
	i := &Intake{request: request, states: map[string]string{}, checks: map[string]int{}, counts: Counts{}}
	if request.Plan != nil {
		for _, id := range request.Plan.Checks {
			i.checks[id] = 0
		}
		for _, t := range request.Plan.Targets {
			if t.Kind == KindLocal {
				i.pods = append(i.pods, t.Name)
			}
			if state := t.Attrs[AttrNode]; state != "" {
				i.states[t.Node] = state
			}
		}
	}
	return i
}

// Take returns the events that pass. At the end of an incomplete answer, it adds the reason. For a plan, the reason is
// a result of the check probe-answered. For a call, it is a log event. stopped reports that the client stopped the
// request. The error is ErrTooMuch and includes the limit that was exceeded.
func (i *Intake) Take(ev Event, stopped bool) ([]Event, error) {
	own := Event{Seq: ev.Seq, Type: ev.Type}
	ok := false
	if r := ev.Result; ev.Type == EventResult && i.requested(*r) && i.checks[r.Check] >= i.maxAnswers() {
		i.often++
		return nil, nil
	}
	switch ev.Type {
	case EventStart:
		own.Start, ok = i.start(*ev.Start)
	case EventResult:
		own.Result, ok = i.known(*ev.Result), i.requested(*ev.Result)
	case EventLog:
		own.Text, ok = ev.Text, true
	case EventOut:
		own.Text, own.Data, own.Sealed = ev.Text, ev.Data, ev.Sealed
		ok = i.request.Call != nil && i.started
	case EventEnd:
		return i.end(own, *ev.End, stopped), nil
	case EventBeat, EventResume:
		return nil, nil
	default:
		if !slices.Contains(EventTypes(), ev.Type) { // an event type from a later version
			return nil, nil
		}
	}
	if !ok {
		i.drop(ev)
		return nil, nil
	}
	own = own.Cleaned().Bounded()
	if own.Type == EventOut {
		return []Event{own}, nil
	}
	i.events++
	i.held += own.Held()
	switch {
	case i.events > MaxEvents:
		return nil, fmt.Errorf("%w: more than %d answers to one request; the rest is not read", ErrTooMuch, MaxEvents)
	case i.held > MaxHeld:
		return nil, fmt.Errorf("%w: more than %d MiB in answer to one request; the rest is not read", ErrTooMuch,
			MaxHeld>>20)
	}
	if r := own.Result; r != nil {
		i.checks[r.Check]++
		i.counts[r.Status]++
	}
	return []Event{own}, nil
}

// start returns the first event of an answer. The client cannot interpret an event in a later format.
func (i *Intake) start(s Start) (*Start, bool) {
	if i.started || i.request.Plan == nil && i.request.Call == nil {
		return nil, false
	}
	if s.V > Version {
		i.newer = s.V
		return nil, false
	}
	i.started = true
	s.V, s.ID, s.Cluster = Version, i.request.ID, nil
	if p := i.request.Plan; p != nil {
		s.Run, s.Node, s.Method, s.Tool, s.Checks = p.Run, p.Node, p.Method, "", p.Checks
		return &s, true
	}
	s.Run, s.Node, s.Method, s.Tool, s.Checks, s.Tools = "", "", "", i.request.Call.Tool, nil, nil
	return &s, true
}

// requested reports whether a result answers a requested check, in the requested place.
func (i *Intake) requested(r Result) bool {
	p := i.request.Plan
	if p == nil || !i.started {
		return false
	}
	_, known := i.checks[r.Check]
	from := r.From == "" || r.From == p.From || slices.Contains(i.pods, r.From)
	return known && from
}

// maxAnswers returns the maximum number of answers that pass for one check.
func (i *Intake) maxAnswers() int { return maxPerCheck + maxPerTarget*len(i.request.Plan.Targets) }

// known returns a result with its node's state from the API. It discards the state that the probe claims. Otherwise, a
// node could report another node as gone.
func (i *Intake) known(r Result) *Result {
	if _, says := r.Facts[FactNodeState]; !says {
		return &r
	}
	r.Facts = maps.Clone(r.Facts)
	delete(r.Facts, FactNodeState)
	if state := i.states[r.Facts.Str(FactNode)]; state != "" {
		r.Facts[FactNodeState] = state
	}
	return &r
}

// drop counts a dropped event, and remembers some names.
func (i *Intake) drop(ev Event) {
	const some = 3
	name := string(ev.Type)
	if ev.Result != nil {
		name = ev.Result.Check
	}
	if name = clipTo(Line(name), maxID); len(i.names) < some && !slices.Contains(i.names, name) {
		i.names = append(i.names, name)
	}
	i.dropped++
}

// end closes the answer, even if events came before.
func (i *Intake) end(own Event, e End, stopped bool) []Event {
	own.End = &End{Results: i.counts.Total(), Counts: i.counts, Elapsed: e.Elapsed, Stopped: e.Stopped && stopped}
	if i.request.Call != nil && e.Outcome != nil {
		outcome := *e.Outcome
		outcome.Check, outcome.From = i.request.Call.Tool, ""
		if !slices.Contains(Statuses(), outcome.Status) {
			outcome.Status = Unknown
		}
		own.End.Outcome = &outcome
	}
	own = own.Cleaned().Bounded()
	reason, saw := i.lacks(own.End.Stopped)
	switch {
	case reason == "":
		return []Event{own}
	case i.request.Plan == nil:
		return []Event{{Seq: own.Seq, Type: EventLog, Text: saw}, own}
	}
	r := Found(Unknown, "%s", saw).With(FactReason, reason)
	r.Check = CheckAnswered
	return []Event{{Seq: own.Seq, Type: EventResult, Result: &r}, own}
}

// lacks returns the reason why an answer that ended is incomplete, or "" if it is complete.
func (i *Intake) lacks(stopped bool) (reason, saw string) {
	var open []string
	if p := i.request.Plan; p != nil && !stopped {
		for _, id := range p.Checks {
			if i.checks[id] == 0 && !slices.Contains(open, id) {
				open = append(open, id)
			}
		}
	}
	switch {
	case i.newer > 0:
		return ReasonNewer, fmt.Sprintf("the probe uses wire format %d, and this client supports up to %d: "+
			"use a client of the probe's version", i.newer, Version)
	case i.dropped > 0:
		saw = fmt.Sprintf("%d events of the probe were dropped: not requested, or not a node's "+
			"to report: %s", i.dropped, strings.Join(i.names, ", "))
		if len(open) > 0 {
			saw += "; unanswered: " + strings.Join(open, ", ")
		}
		return ReasonUnrequested, clipTo(saw, maxSaw)
	case i.often > 0:
		return ReasonTooMuch, fmt.Sprintf("%d answers of the probe were dropped: "+
			"more than %d answers to one check are too many", i.often, i.maxAnswers())
	case len(open) > 0:
		return reasonNoAnswer, clipTo("the probe did not answer: "+strings.Join(open, ", "), maxSaw)
	}
	return "", ""
}

// Held estimates the number of bytes that an event uses in memory.
func (ev Event) Held() int {
	const event = 512 // includes its share of the run's data structures
	n := event + len(ev.Text) + len(ev.Data)
	if s := ev.Start; s != nil {
		for _, text := range s.texts() {
			n += len(*text)
		}
		for _, list := range s.lists() {
			n += heldValue(*list)
		}
	}
	if r := ev.Result; r != nil {
		n += r.held()
	}
	if ev.End != nil && ev.End.Outcome != nil {
		n += ev.End.Outcome.held()
	}
	return n
}

func (r *Result) held() int {
	n := len(r.Check) + len(r.Target) + len(r.From) + len(r.Saw) + heldValue(r.Lines)
	for key, v := range r.Facts {
		n += heldValue(string(key)) + heldValue(v)
	}
	return n
}

// heldValue estimates the size of a fact's value.
func heldValue(v any) int {
	const value = 48 // an interface with its data
	n := value
	switch v := v.(type) {
	case string:
		n += len(v)
	case []string:
		for _, text := range v {
			n += value + len(text)
		}
	case []any:
		for _, one := range v {
			n += heldValue(one)
		}
	case map[string]any:
		for key, one := range v {
			n += heldValue(key) + heldValue(one)
		}
	}
	return n
}
