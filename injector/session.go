package injector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Session is a conversation with a probe. Send and Next are for one goroutine
// each; Close may be called by any, and more than once.
type Session struct {
	created []string
	remove  func(answered bool) error
	through string // what the line leads through
	kept    bool   // the probe outlives its line
	closed  atomic.Bool

	feed   io.WriteCloser // of the line there is now
	sendMu sync.Mutex
	events chan probe.Event
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu      sync.Mutex
	open    []probe.Request // plans and calls sent and not answered to their end
	ids     int64           // ID of the last of them
	next    int64           // number of the next event wanted
	resumed bool            // what comes now follows on what came before
	heard   time.Time       // when the last event came
	cut     func()          // ends the stream that is read now
	failure error           // why the stream ended, once events is closed

	closing  sync.Once
	closeErr error
}

// Created names what was created for this session, for whoever cleans up.
func (s *Session) Created() []string { return s.created }

// sendLimit is how long a probe that runs may take to be reached.
const sendLimit = 20 * time.Second

// Send sends one request to the probe. A line that is not open within 20 seconds
// is a *PlacementError: the probe runs and cannot be talked to.
func (s *Session) Send(ctx context.Context, r probe.Request) error {
	s.mu.Lock()
	if r.Type == probe.RequestPlan || r.Type == probe.RequestCall {
		s.ids++
		r.ID = s.ids
		s.open, s.heard = append(s.open, r), time.Now()
	}
	feed := s.feed
	s.mu.Unlock()
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	sent := make(chan error, 1)
	go func() { // ends with the feed at the latest
		s.sendMu.Lock()
		defer s.sendMu.Unlock()
		_, err := feed.Write(append(line, '\n'))
		sent <- err
	}()
	late := time.NewTimer(sendLimit)
	defer late.Stop()
	select {
	case err = <-sent:
	case <-late.C:
		return refuse(ReasonAttach, "the probe runs, and the line to it (through %s) did not open within %v", s.through, sendLimit)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	switch {
	case err == nil:
		return nil
	case s.kept && !s.closed.Load() && (r.Plan != nil || r.Call != nil): // sent again as soon as there is a line
		return nil
	}
	return refuse(ReasonAttach, "the probe runs and cannot be talked to: %v", err)
}

// Stop ends what was asked last, if that is not answered yet: what is known of it
// still comes.
func (s *Session) Stop(ctx context.Context) error {
	return s.Send(ctx, probe.Request{Type: probe.RequestStop, ID: s.id()})
}

// Type hands on what was typed for the tool that was asked for last, and the size its
// terminal has now, zero where that has not changed.
func (s *Session) Type(ctx context.Context, typed []byte, size probe.Size) error {
	return s.Send(ctx, probe.Request{Type: probe.RequestTyped, ID: s.id(), Typed: typed, Size: size})
}

func (s *Session) id() int64 { s.mu.Lock(); defer s.mu.Unlock(); return s.ids }

// Next returns the next event, beats left out. io.EOF means that the probe ended
// with every plan answered; any other error that something is missing.
func (s *Session) Next(ctx context.Context) (probe.Event, error) {
	for {
		select {
		case ev, more := <-s.events:
			if !more {
				s.mu.Lock()
				defer s.mu.Unlock()
				return probe.Event{}, s.failure
			}
			return ev, nil
		case <-ctx.Done():
			return probe.Event{}, fmt.Errorf("the run was stopped before the probe's answer was whole: %w", context.Cause(ctx))
		}
	}
}

// Close ends the probe and removes what was created, with ten seconds of its
// own, also when the context the session was opened with has ended.
func (s *Session) Close() error {
	s.closing.Do(func() {
		s.closed.Store(true)
		s.mu.Lock()
		ok, feed := s.next > 0 && len(s.open) == 0, s.feed
		s.mu.Unlock()
		if s.kept { // whose stdin does not end with the line
			go func() { _ = s.Send(context.Background(), probe.Request{Type: probe.RequestEnd}) }() // it ends without, later
		} else {
			feed.Close() // the end of its stdin ends the probe
		}
		s.closeErr = s.remove(ok)
		late := time.AfterFunc(farewell, s.cancel)
		for range s.events { // let the readers go
		}
		s.cancel()
		s.ended.Wait()
		late.Stop()
	})
	return s.closeErr
}

// farewell is how long a probe that was told to end may take before the line to
// it is cut.
const farewell = time.Second

// talk starts the goroutines of a session: transport carries stdin and stdout
// until it breaks, and reread opens the output once more from its beginning.
func (s *Session) talk(ctx context.Context, transport func(context.Context, io.Reader, io.Writer) error, reread func(context.Context) (io.ReadCloser, error)) {
	ctx, s.cancel = context.WithCancel(ctx)
	in, feed := io.Pipe()
	out, sink := io.Pipe()
	s.feed, s.events, s.resumed = feed, make(chan probe.Event, 64), true
	s.ended.Go(func() {
		err := transport(ctx, in, sink)
		in.CloseWithError(errOr(err, errors.New("the line is closed")))
		sink.CloseWithError(errOr(err, io.EOF))
	})
	s.ended.Go(func() { s.beat(ctx) })
	s.ended.Go(func() { s.listen(ctx) })
	s.ended.Go(func() {
		defer close(s.events)
		var silent atomic.Bool
		s.reading(func() { silent.Store(true); out.Close() })
		err := s.read(ctx, out)
		out.Close()
		if silent.Load() {
			err = errSilent
		}
		for began := time.Now(); reread != nil && s.owed() && ctx.Err() == nil && time.Since(began) < rereading; {
			progress, again := s.again(ctx, reread)
			if progress {
				began = time.Now()
			}
			if !errors.Is(err, errSilent) { // which says more than a log that cannot be had
				err = again
			}
		}
		s.fail(err)
	})
}

// fail says why there are no more events.
func (s *Session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = io.EOF
	if len(s.open) > 0 {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // io.EOF means a good end
		}
		s.failure = fmt.Errorf("the probe's answer broke off after %d events: %w", s.next, err)
	}
}

// rereading is how long the log is tried for after a broken stream, a second apart,
// without anything new in it.
const rereading = 10 * time.Second

// again reads the log once and tells whether it brought anything new.
func (s *Session) again(ctx context.Context, reread func(context.Context) (io.ReadCloser, error)) (progress bool, err error) {
	before := s.count()
	one, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.reading(func() { cancel(errSilent) })
	r, err := reread(one)
	if err == nil {
		err = s.read(one, r)
		r.Close()
	}
	if errors.Is(context.Cause(one), errSilent) {
		return s.count() > before, errSilent
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

// quiet is how long a probe may be silent while it owes an answer: it says at
// least that it lives every five seconds.
const quiet = 3 * probe.BeatEvery

var errSilent = fmt.Errorf("nothing heard from the probe for %v, though it runs: its node, its kubelet or its container runtime froze, or the line to it is dead", quiet)

// reading tells what is read from now on, and how to end that.
func (s *Session) reading(cut func()) {
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
			if (s.kept || len(s.open) > 0) && s.cut != nil && time.Since(s.heard) > quiet {
				s.cut()
				s.cut = nil
			}
			s.mu.Unlock()
		}
	}
}

// read passes on the events not seen before until the stream ends, or shows that
// something of it is missing.
func (s *Session) read(ctx context.Context, r io.Reader) error {
	d := probe.NewDecoder(r)
	var noise string
	d.Noise = func(line string) { noise = line }
	for {
		ev, err := d.Next()
		if err != nil {
			if noise != "" && errors.Is(err, io.EOF) {
				return fmt.Errorf("the probe's last words: %s", noise)
			}
			return err
		}
		switch fresh, err := s.fresh(ev); {
		case err != nil:
			return err
		case !fresh, ev.Type == probe.EventBeat: // nobody takes those while nothing is asked
			continue
		}
		select {
		case s.events <- ev:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fresh tells whether an event is new, and keeps count. The error says that
// events before it are missing: the numbers have a gap.
func (s *Session) fresh(ev probe.Event) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
	switch {
	case ev.Type == probe.EventResume && ev.Seq > s.next:
		return false, fmt.Errorf("events %d to %d are missing: %w", s.next, ev.Seq-1, errMissing)
	case ev.Type == probe.EventResume:
		s.resumed = true
		return false, nil
	case ev.Seq < s.next, !s.resumed: // the latter come again
		return false, nil
	case ev.Seq > s.next:
		return false, fmt.Errorf("events %d to %d are missing", s.next, ev.Seq-1)
	}
	s.next++
	if ev.Type == probe.EventEnd && len(s.open) > 0 {
		s.open = s.open[1:] // they are answered in order
	}
	return true, nil
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
			if s.Send(ctx, probe.Request{Type: probe.RequestBeat}) != nil {
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
