package injector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// talk starts the goroutines of a session: transport carries stdin and stdout
// until it breaks, and reread opens the output once more from its beginning.
func (s *Session) talk(ctx context.Context, transport func(context.Context, io.Reader, io.Writer) error, reread func(context.Context) (io.ReadCloser, error)) {
	ctx, s.cancel = context.WithCancel(ctx)
	in, feed := io.Pipe()
	out, sink := io.Pipe()
	s.begin()
	s.feed, s.resumed = feed, true
	s.ended.Go(func() {
		err := transport(ctx, in, sink)
		in.CloseWithError(errOr(err, errors.New("the line is closed")))
		sink.CloseWithError(errOr(err, io.EOF))
	})
	s.ended.Go(func() { s.beat(ctx) })
	s.ended.Go(func() { s.listen(ctx) })
	s.ended.Go(func() {
		defer close(s.events)
		// A transport that does not hear of its end holds up nobody.
		defer context.AfterFunc(ctx, func() { sink.CloseWithError(context.Cause(ctx)) })()
		s.reading(func(why error) { sink.CloseWithError(why) })
		err := s.read(ctx, out)
		out.Close()
		for began := time.Now(); reread != nil && s.owed() && ctx.Err() == nil && !errors.Is(err, probe.ErrTooMuch) && time.Since(began) < rereading; {
			progress, again := s.again(ctx, reread)
			if progress {
				began = time.Now()
			}
			if !silent(err) { // which says more than a log that cannot be had
				err = again
			}
		}
		s.end(err)
	})
}

// end says why there are no more events.
func (s *Session) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cause, s.cut = err, nil
	close(s.over)
}

// rereading is how long the log is tried for after a broken stream, a second apart,
// without anything new in it.
const rereading = 10 * time.Second

// again reads the log once and tells whether it brought anything new.
func (s *Session) again(ctx context.Context, reread func(context.Context) (io.ReadCloser, error)) (progress bool, err error) {
	before := s.count()
	one, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.reading(cancel)
	r, err := reread(one)
	if err == nil {
		err = s.read(one, r)
		r.Close()
	}
	if why := context.Cause(one); silent(why) {
		return s.count() > before, why
	}
	if s.owed() {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return s.count() > before, err
}

// count is how many events have come.
func (s *Session) count() int64 { s.mu.Lock(); defer s.mu.Unlock(); return s.next }

// How long a probe may be silent while it owes an answer: it says at least that it lives
// every five seconds. Where another line can be made there is less to lose by not waiting,
// and little time: the probe ends 30 seconds after it last heard of its client. So one
// that was dead when it was made must leave time for one more.
const (
	quiet     = 3 * probe.BeatEvery
	quietKept = 2*probe.BeatEvery + 2*time.Second
	opening   = 8 * time.Second
)

// silentError is a line on which nothing has come for so long.
type silentError time.Duration

func (e silentError) Error() string {
	return fmt.Sprintf("nothing heard from the probe for %v, though it runs: its node, its kubelet or its container runtime froze, or the line to it is dead", time.Duration(e))
}

// silent tells whether a line ended because nothing came any more.
func silent(err error) bool { _, is := errors.AsType[silentError](err); return is }

// patience is how long nothing may come now. The caller holds mu.
func (s *Session) patience() time.Duration {
	switch {
	case !s.kept, s.next == 0: // the first line has all the time it needs
		return quiet
	case !s.resumed:
		return opening
	}
	return quietKept
}

// reading tells what is read from now on, and how to end that.
func (s *Session) reading(cut func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut, s.heard = cut, time.Now()
}

// listen ends a stream that has been silent for too long.
func (s *Session) listen(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.mu.Lock()
			if limit := s.patience(); (s.kept || len(s.open) > 0) && s.cut != nil && !s.full && time.Since(s.heard) > limit {
				s.cut(silentError(limit))
				s.cut = nil
			}
			s.mu.Unlock()
		}
	}
}

// strays bounds what one stream may bring in a minute beside what is let through: lines that
// are no events, events that came before or that nobody asked for.
type strays struct {
	from  io.Reader
	left  int // bytes
	since time.Time
}

// mostStrays is what the log of a whole plan takes that is read once more, and some.
const mostStrays = probe.MaxHeld

func (s *strays) Read(b []byte) (int, error) {
	if now := time.Now(); now.Sub(s.since) > time.Minute {
		s.left, s.since = mostStrays, now
	}
	if s.left <= 0 {
		return 0, fmt.Errorf("%w: more than %d MiB in a minute that nobody asked for; the rest is not read",
			probe.ErrTooMuch, mostStrays>>20)
	}
	n, err := s.from.Read(b)
	s.left -= n
	return n, err
}

// read passes on the events not seen before until the stream ends, or shows that
// something of it is missing.
func (s *Session) read(ctx context.Context, r io.Reader) error {
	in := &strays{from: r}
	d := probe.NewLiveDecoder(in)
	var noise string
	d.Noise = func(line string) {
		if !strings.HasPrefix(line, `{"seq":`) { // else an event that was cut
			noise = line
		}
	}
	for {
		ev, err := d.Next()
		if err != nil {
			if noise != "" && errors.Is(err, io.EOF) {
				return fmt.Errorf("the probe's last words: %s", probe.Cut(probe.Line(noise), shownWords))
			}
			return err
		}
		noise = ""
		if ev.Type == probe.EventResume {
			if lost := s.resume(ev.Seq); lost > 0 {
				s.stopSoon(lost)
				if err := s.pass(ctx, told{of: lost, err: errMissing}); err != nil {
					return err
				}
			}
			continue
		}
		let, err := s.fresh(ev)
		if err != nil {
			return err
		}
		if len(let) > 0 { // it may be let through as two: what it is, and that something was cut
			in.left += d.Size
		}
		for _, ev := range let {
			if err := s.pass(ctx, ev); err != nil {
				return err
			}
		}
	}
}

// shownWords is how much of a line is shown that is no event, in bytes.
const shownWords = 400

// pass hands an event to the caller of Next, however long that takes. What is said of no
// request waits as long as there is room.
func (s *Session) pass(ctx context.Context, ev told) error {
	if s.held.Load() < mostWaiting {
		select {
		case s.events <- ev:
			s.held.Add(int64(ev.Held()))
			return nil
		default:
		}
	}
	if ev.of == 0 {
		return nil
	}
	full := func(is bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.full, s.heard = is, time.Now()
	}
	full(true)
	defer full(false)
	for s.held.Load() >= mostWaiting {
		select {
		case <-s.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.held.Add(int64(ev.Held()))
	select {
	case s.events <- ev:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resume notes that what comes now was asked for again, from event number seq on. Where
// that is later than asked for, all that is not answered may lack something: the last of
// it is lost, and nobody waits for the others.
func (s *Session) resume(seq int64) (lost int64) {
	s.mu.Lock()
	if seq > s.next {
		s.next = seq
		if len(s.open) > 0 {
			s.missed, lost = s.ids, s.ids
		}
	}
	first := !s.resumed
	s.resumed, s.heard = true, time.Now()
	s.mu.Unlock()
	if first && s.back != nil {
		s.back()
	}
	return lost
}

// fresh is what is let through of an event that is new, with the request it answers. It
// keeps count. The error says that events before it are missing: the numbers have a gap; or
// that the probe says too much.
func (s *Session) fresh(ev probe.Event) ([]told, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.resumed { // it comes again; and a line on which nothing else comes is of no use
		return nil, nil
	}
	s.heard = time.Now()
	switch {
	case ev.Seq < s.next:
		return nil, nil
	case ev.Seq > s.next:
		return nil, fmt.Errorf("events %d to %d are missing", s.next, ev.Seq-1)
	}
	s.next++
	if ev.Type == probe.EventStart && s.missed > 0 { // of those before it the end may be missing
		s.open = slices.DeleteFunc(s.open, func(q question) bool { return q.ID <= s.missed && q.ID < ev.Start.ID })
	}
	if len(s.open) == 0 && ev.Type != probe.EventLog { // an answer to nothing is none
		return nil, nil
	}
	q := question{intake: s.beside}
	if len(s.open) > 0 {
		q = s.open[0] // they are answered in order
	}
	let, err := q.intake.Take(ev, q.ID <= s.stopped)
	if err != nil {
		return nil, err
	}
	if ev.Type == probe.EventEnd {
		s.open = s.open[1:]
	}
	wanted := q.ID > max(s.given, s.missed)
	var out []told
	for _, own := range let {
		switch {
		case ev.Type == probe.EventLog:
			out = append(out, told{Event: own})
		case wanted:
			out = append(out, told{Event: own, of: q.ID})
		}
	}
	return out, nil
}

// owed tells whether a plan still waits for its end.
func (s *Session) owed() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.open) > 0 }

// beat tells the probe that its client is there.
func (s *Session) beat(ctx context.Context) {
	tick := time.NewTicker(probe.BeatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := s.Send(ctx, probe.Request{Type: probe.RequestBeat}); err != nil && !s.kept {
				return // the line is gone; the reader says so
			}
		}
	}
}

func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
