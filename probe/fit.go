package probe

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"
)

// What one event may carry at most. What a probe of ours says is below all of it.
const (
	maxID     = 64  // bytes of a check's ID
	maxName   = 320 // bytes of a name; the longest, NAMESPACE/POD, has 317
	maxTarget = 512 // bytes of a target: a name with an address
	maxSaw    = 400 // bytes of the sentence
	maxLines  = 16  // lines of evidence
	maxWidth  = 160 // bytes of one line of evidence
	maxList   = 256 // entries of a list: checks, tools, what a probe holds
	maxText   = MaxLine / 2

	maxElapsed = 365 * 24 * time.Hour // sums of it fit a Duration
)

// Bounded is an event of which no field is longer than an event needs. A result that lost
// something by that says so. What a tool writes stays whole.
func (ev Event) Bounded() Event {
	ev.Type = EventType(clipTo(string(ev.Type), maxID))
	ev.Node, ev.Way, ev.For = clipTo(ev.Node, maxName), clipTo(ev.Way, maxName), clipTo(ev.For, maxName)
	ev.At = encodable(ev.At)
	if ev.Type != EventOut {
		ev.Text = clipTo(ev.Text, maxText)
	}
	if ev.Start != nil {
		s := ev.Start.bounded()
		ev.Start = &s
	}
	if ev.Result != nil {
		r := ev.Result.capped()
		ev.Result = &r
	}
	if ev.End != nil {
		end := *ev.End
		end.Elapsed, end.Counts = between(end.Elapsed), maps.Clone(end.Counts)
		maps.DeleteFunc(end.Counts, func(s Status, _ int) bool { return !slices.Contains(Statuses(), s) })
		if end.Outcome != nil {
			r := end.Outcome.capped()
			end.Outcome = &r
		}
		ev.End = &end
	}
	return ev
}

func between(d time.Duration) time.Duration { return min(max(d, 0), maxElapsed) }

// encodable is a time that has a form in JSON, which one of the year 10000 has not.
func encodable(t time.Time) time.Time {
	if t = t.UTC(); t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

// clone is a copy whose texts can be changed.
func (s *Start) clone() Start {
	own := *s
	if own.Cluster != nil {
		c := *own.Cluster
		own.Cluster = &c
	}
	return own
}

// texts are all its texts; each is one line.
func (s *Start) texts() []*string {
	out := []*string{&s.Version, &s.Run, &s.Node, &s.Way, &s.Tool}
	if s.Cluster != nil {
		out = append(out, &s.Cluster.Context, &s.Cluster.Server)
	}
	return out
}

// lists are all its lists, the one that can be done without first.
func (s *Start) lists() []*[]string {
	return []*[]string{&s.Checks, &s.Attributes, &s.Access, &s.Tools}
}

func (s *Start) bounded() Start {
	own := s.clone()
	own.Time = encodable(own.Time)
	for _, text := range own.texts() {
		*text = clipTo(*text, maxName)
	}
	for _, list := range own.lists() {
		short := slices.Clone((*list)[:min(len(*list), maxList)])
		for i := range short {
			short[i] = clipTo(short[i], maxWidth)
		}
		*list = short
	}
	return own
}

// capped is a result with the limits of one.
func (r Result) capped() Result {
	for _, field := range []struct {
		text *string
		most int
	}{{&r.Check, maxID}, {&r.Target, maxTarget}, {&r.From, maxName}, {&r.Saw, maxSaw}} {
		if len(*field.text) > field.most {
			*field.text, r.Cut = clip(*field.text, field.most), true
		}
	}
	r.Status = Status(clipTo(string(r.Status), maxID))
	r.Elapsed = between(r.Elapsed)
	lines := r.Lines
	if len(lines) > maxLines {
		lines, r.Cut = lines[:maxLines], true
	}
	r.Lines = nil
	for _, l := range lines {
		if len(l) > maxWidth {
			l, r.Cut = clip(l, maxWidth), true
		}
		r.Lines = append(r.Lines, l)
	}
	return r
}

// fit marshals an event to a line of at most MaxLine bytes, newline included: of causes and
// the verdict, which never travel, to one of any length. Evidence goes first, then facts and
// lists, then the longest text, half by half. The error is that no shortening helps.
func fit(ev Event) ([]byte, error) {
	ev = ev.Bounded()
	for {
		line, err := json.Marshal(ev)
		if err == nil && (len(line) < MaxLine || ev.Cause != nil || ev.Verdict != nil || ev.Group != nil) {
			return append(line, '\n'), nil
		}
		if !ev.shorten() {
			if err != nil {
				return nil, fmt.Errorf("an event (%s) that cannot be encoded: %w", ev.Type, err)
			}
			return nil, fmt.Errorf("an event (%s) of %d bytes, which does not fit a line", ev.Type, len(line))
		}
	}
}

// shorten takes something away from an event that is Bounded, and so shares nothing with
// others that it changes; false = there is nothing left that it may take. Of what a tool writes
// it takes nothing: that can be said in two events.
func (ev *Event) shorten() bool {
	texts := []*string{&ev.Node, &ev.Way, &ev.For}
	if ev.Type != EventOut {
		texts = append(texts, &ev.Text)
	}
	results := []*Result{ev.Result}
	if ev.End != nil {
		results = append(results, ev.End.Outcome)
	}
	for _, r := range results {
		switch {
		case r == nil:
			continue
		case len(r.Lines) > 0:
			r.Lines, r.Cut = r.Lines[:len(r.Lines)/2], true
			return true
		case r.Facts != nil:
			r.Facts, r.Cut = nil, true
			return true
		}
		texts = append(texts, &r.Saw, &r.Target, &r.From)
	}
	if s := ev.Start; s != nil {
		for _, list := range s.lists() {
			if len(*list) > 0 {
				*list = nil
				return true
			}
		}
		texts = append(texts, s.texts()...)
	}
	longest := slices.MaxFunc(texts, func(a, b *string) int { return len(*a) - len(*b) })
	if *longest == "" {
		return false
	}
	for _, r := range results {
		if r != nil && (longest == &r.Saw || longest == &r.Target || longest == &r.From) {
			r.Cut = true
		}
	}
	*longest = halve(*longest)
	return true
}

// halves are two events with half of a piece of output each; false where it is none, or is
// sealed, of which only the whole can be opened.
func halves(ev Event) (first, second Event, ok bool) {
	if ev.Type != EventOut || ev.Sealed || len(ev.Text) < 2 && len(ev.Data) < 2 {
		return ev, ev, false
	}
	first, second = ev, ev
	n := len(ev.Text) / 2
	for n < len(ev.Text) && !utf8.RuneStart(ev.Text[n]) {
		n++
	}
	first.Text, second.Text = ev.Text[:n], ev.Text[n:]
	first.Data, second.Data = ev.Data[:len(ev.Data)/2], ev.Data[len(ev.Data)/2:]
	return first, second, first.Text+string(first.Data) != "" && second.Text+string(second.Data) != ""
}

// halve shortens s until nothing is left.
func halve(s string) string {
	if len(s) < 16 {
		return ""
	}
	return clip(s, len(s)/2)
}

func clipTo(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return clip(s, n)
}

// mark is in place of what was cut.
const mark = "…"

// clip shortens s to at most n bytes without splitting a rune.
func clip(s string, n int) string {
	n -= len(mark)
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + mark
}
