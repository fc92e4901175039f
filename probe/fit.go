package probe

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"
)

// The limits of one event. An unmodified probe never reaches them.
const (
	maxID     = 64  // bytes in a check's ID
	maxName   = 320 // bytes in a name; the longest, NAMESPACE/POD, has 317
	maxTarget = 512 // bytes in a target: a name with an address
	maxSaw    = 400 // bytes in the sentence
	maxLines  = 16  // lines of evidence
	maxWidth  = 160 // bytes in one line of evidence
	maxList   = 256 // entries in a list: checks, tools, access
	maxText   = MaxLine / 2

	maxElapsed = 365 * 24 * time.Hour // the sum of such durations fits a Duration
)

// Bounded returns the event with every field within its limit. If it shortens a result, it marks the result as cut.
// It does not shorten a tool's output.
func (ev Event) Bounded() Event {
	ev.Type = EventType(clipTo(string(ev.Type), maxID))
	ev.Node, ev.Method, ev.For = clipTo(ev.Node, maxName), clipTo(ev.Method, maxName), clipTo(ev.For, maxName)
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

// encodable returns a time that JSON can represent. JSON cannot represent the year 10000.
func encodable(t time.Time) time.Time {
	if t = t.UTC(); t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

// clone returns a copy whose texts the caller can change.
func (s *Start) clone() Start {
	own := *s
	if own.Cluster != nil {
		c := *own.Cluster
		own.Cluster = &c
	}
	return own
}

// texts returns all texts of a result. Each text is one line.
func (s *Start) texts() []*string {
	out := []*string{&s.Version, &s.Run, &s.Node, &s.Method, &s.Tool}
	if s.Cluster != nil {
		out = append(out, &s.Cluster.Context, &s.Cluster.Server)
	}
	return out
}

// lists returns all lists of an event, with the least important first.
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

// capped returns a result within the limits of one result.
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

// fit marshals an event to a line of at most MaxLine bytes, including the newline. Causes and the verdict are never
// sent over the wire, so fit does not limit their length. fit first removes evidence, then facts and lists. After
// that, it repeatedly halves the longest text. If the event still does not fit, it returns an error.
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

// shorten removes something from a Bounded event, which shares no memory with other events. It returns false if nothing
// is left to remove. It never shortens a tool's output, because a caller can split that into two events.
func (ev *Event) shorten() bool {
	texts := []*string{&ev.Node, &ev.Method, &ev.For}
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

// halves splits a piece of output into two events. It returns false for other events, and for sealed output, which
// can be decrypted only as a whole.
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

// halve shortens s by half.
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

// mark replaces text that was removed.
const mark = "…"

// clip shortens s to at most n bytes without splitting a rune.
func clip(s string, n int) string {
	n -= len(mark)
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + mark
}
