package probe

import "time"

// FactHistory is true in a result that only quotes a message older than the current state. Rules never see such a
// result, so its quote does not count as evidence.
const FactHistory Fact = "history"

// reportDelay is the maximum time by which a message may be older than the state it describes. The kubelet first
// reports an event and then the resulting condition, with times in whole seconds.
const reportDelay = 3 * time.Second

// A Statement is something that another component reported or logged: an event, a log line or a container's message.
// It describes the current state only if it is not older than the given period.
type Statement struct {
	By   string    // who reported it
	Text string    // safe to show, see Quoted
	At   time.Time // time of the most recent report, zero = unknown
}

// Current reports whether a statement is no older than the start of the period. A statement without a time counts as
// current.
func (s Statement) Current(since time.Time) bool {
	return s.At.IsZero() || !s.At.Before(since.Add(-reportDelay))
}

// Aged returns the text with its age, if the age is known.
func (s Statement) Aged(now time.Time) string {
	if s.At.IsZero() {
		return s.Text
	}
	return s.Text + ", " + Age(now.Sub(s.At)) + " ago"
}

// History returns a result that quotes a statement from before the current state.
func (s Statement) History(now time.Time) Result {
	return Found(Info, "history: %s reported: %s", s.By, s.Aged(now)).With(FactHistory, true)
}
