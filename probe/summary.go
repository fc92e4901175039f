package probe

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// maxSummary is the maximum size of a Summary: the kubelet keeps 4096 bytes of a container's termination message.
const maxSummary = 4096

// Summary is a short answer to a plan: the worst status of each check. It fits into a container's termination message,
// so a single watch of the pods delivers the answers of many nodes.
type Summary struct {
	V      int               `json:"v"`      // version of the wire format
	Run    string            `json:"run"`    // the plan's run ID
	Checks map[string]Status `json:"checks"` // by ID
	Log    int               `json:"log"`    // number of log events, which are only in the full answer
}

// Summarize adds an event from the answer.
func (s *Summary) Summarize(ev Event) {
	switch {
	case ev.Type == EventLog:
		s.Log++
	case ev.Result != nil:
		had, ok := s.Checks[ev.Result.Check]
		if !ok || slices.Index(Statuses(), ev.Result.Status) < slices.Index(Statuses(), had) {
			s.Checks[ev.Result.Check] = ev.Result.Status
		}
	}
}

// ReadSummary reads a probe's summary of its answer to a plan. It returns an error if the text does not match the
// plan, because another process on the node may have written it.
func ReadSummary(text string, plan Plan) (Summary, error) {
	var s Summary
	if len(text) > maxSummary {
		return s, fmt.Errorf("its summary has more than %d bytes", maxSummary)
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("its summary cannot be read: %w", err)
	}
	switch {
	case s.V > Version:
		return s, fmt.Errorf("its summary is of version %d, and this client supports %d", s.V, Version)
	case s.Run != plan.Run:
		return s, fmt.Errorf("its summary is not of this run")
	}
	for id, status := range s.Checks {
		if !slices.Contains(plan.Checks, id) || !slices.Contains(Statuses(), status) {
			return s, fmt.Errorf("its summary has checks that were not requested")
		}
	}
	for _, id := range plan.Checks {
		if _, ok := s.Checks[id]; !ok {
			return s, fmt.Errorf("its summary lacks %s", id)
		}
	}
	return s, nil
}

// Well reports whether the full answer is unnecessary. This is true if every check is ok, info or skipped, and the
// probe has no log events.
func (s Summary) Well() bool {
	for _, status := range s.Checks {
		if status != OK && status != Info && status != Skip {
			return false
		}
	}
	return s.Log == 0
}

// Events returns the events of an answer for which only the summary was read.
func (s Summary) Events(plan Plan) []Event {
	counts := Counts{}
	out := []Event{{Type: EventStart, Start: &Start{V: s.V, Run: plan.Run, Node: plan.Node, Method: plan.Method,
		Checks: plan.Checks}}}
	for _, id := range slices.Sorted(maps.Keys(s.Checks)) {
		r := Found(s.Checks[id], "from the probe's summary; its answers were not read")
		r.Check = id
		counts[r.Status]++
		out = append(out, Event{Type: EventResult, Result: &r})
	}
	return append(out, Event{Type: EventEnd, End: &End{Results: len(s.Checks), Counts: counts}})
}
