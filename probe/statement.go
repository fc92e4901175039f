package probe

import "time"

// FactHistory is true in a result that only quotes a message from before the present state. Rules never see such a
// result, so what it quotes is evidence of nothing.
const FactHistory Fact = "history"

// reportDelay is how much older a message may be than the state it is about: the kubelet reports an event and the
// condition that follows from it with times of whole seconds, one after the other.
const reportDelay = 3 * time.Second

// A Statement is what another component reported or logged: an event, a line of a log, the message of a container.
// It is about the present only where it is not older than the period that is asked about.
type Statement struct {
	By   string    // who reported it
	Text string    // as it may be shown, see Quoted
	At   time.Time // when it was last reported, zero = unknown
}

// Current reports whether a statement is no older than the period that began then. One without a time is not known
// to be older.
func (s Statement) Current(since time.Time) bool {
	return s.At.IsZero() || !s.At.Before(since.Add(-reportDelay))
}

// Aged is the text with its age, where that is known.
func (s Statement) Aged(now time.Time) string {
	if s.At.IsZero() {
		return s.Text
	}
	return s.Text + ", " + Age(now.Sub(s.At)) + " ago"
}

// History is the result that shows a statement from before the present state.
func (s Statement) History(now time.Time) Result {
	return Found(Info, "history: %s reported: %s", s.By, s.Aged(now)).With(FactHistory, true)
}
