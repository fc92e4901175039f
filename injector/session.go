package injector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Session is a conversation with a probe. Next is for one goroutine, which also asks for
// plans and calls; all else may be called by any, and Close more than once.
type Session struct {
	created []string
	image   string                           // what the kubelet says the probe runs from, "" = nothing
	remove  func(answered, ended bool) error // ended: and was seen to
	through string                           // what the line leads through
	kept    bool                             // the probe outlives its line
	closed  atomic.Bool

	turn   chan struct{} // holds one while something is written to feed
	events chan told
	held   atomic.Int64  // bytes that the events take which wait
	room   chan struct{} // holds one when some of them were taken
	over   chan struct{} // closed once no more events come
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu       sync.Mutex
	feed     io.WriteCloser // of the line there is now; nil = it is cut
	open     []question     // plans and calls sent and not answered to their end
	beside   *probe.Intake  // of what is said in answer to none of them
	ids      int64          // ID of the last of them
	stopped  int64          // ID of the last that was to stop
	stopping bool           // a stop that nobody waits for is on its way
	given    int64          // ID of the last whose answer nobody wants any more
	missed   int64          // ID of the last of whose answer something may be missing for good
	next     int64          // number of the next event wanted
	resumed  bool           // what comes now follows on what came before
	heard    time.Time      // when the last event came
	full     bool           // nobody takes the events there are: no wonder that none comes
	cut      func(error)    // ends the stream that is read now
	back     func()         // is told when a line that was made again is of use
	cause    error          // why there are no more events, once over is closed

	closing  sync.Once
	closeErr error
}

// question is a plan or a call that was sent, and what may be let through in answer to it.
type question struct {
	probe.Request
	intake *probe.Intake
}

// told is an event and the ID of the request it answers, 0 = none.
type told struct {
	probe.Event
	of  int64
	err error // instead of the event: there is no more of this answer
}

// How many events may wait for the caller, a pager perhaps that is being read, and how
// many bytes of memory they may take: after that the probe has to wait.
const (
	waiting     = 4096
	mostWaiting = probe.MaxHeld / 2
)

// begin makes the session ready for its first line.
func (s *Session) begin() {
	s.turn, s.over = make(chan struct{}, 1), make(chan struct{})
	s.events, s.room = make(chan told, waiting), make(chan struct{}, 1)
	s.beside = probe.NewIntake(probe.Request{})
}

// took makes room for another event.
func (s *Session) took(ev told) {
	s.held.Add(-int64(ev.Held()))
	select {
	case s.room <- struct{}{}:
	default:
	}
}

// Created names what was created for this session, for a user who cleans up by hand.
func (s *Session) Created() []string { return s.created }

// ImageID is what the node made of the name of the probe's image, as the kubelet says it: a
// name with a digest, or the digest of its configuration; "" where there is no image.
func (s *Session) ImageID() string { return s.image }

// sendLimit is how long a probe that runs may take to be reached.
const sendLimit = 20 * time.Second

// Send sends one request to the probe and returns its ID. A plan or a call gives up on
// what was asked before it. A line that is not open within 20 seconds is a *PlacementError: the probe
// runs and cannot be talked to. Where the line of a probe that outlives it is cut, what
// was asked, or is to stop, is sent with the next one, and that is no error.
func (s *Session) Send(ctx context.Context, r probe.Request) (id int64, err error) {
	asks := r.Type == probe.RequestPlan || r.Type == probe.RequestCall
	send := []probe.Request{r}
	s.mu.Lock()
	switch {
	case asks:
		if len(s.open) > 0 {
			s.given, s.stopped = s.ids, s.ids
			send = slices.Insert(send, 0, probe.Request{Type: probe.RequestStop, ID: s.ids})
		}
		s.ids++
		r.ID = s.ids
		send[len(send)-1] = r
		s.open, s.heard = append(s.open, question{r, probe.NewIntake(r)}), time.Now()
	case r.Type == probe.RequestStop:
		s.stopped = max(s.stopped, r.ID)
	}
	feed := s.feed
	s.mu.Unlock()
	again := s.kept && (asks || r.Type == probe.RequestStop)
	if feed == nil {
		if again {
			return r.ID, nil
		}
		return r.ID, errCut
	}
	sent := make(chan error, 1)
	go func() { // ends with the feed at the latest
		s.turn <- struct{}{}
		defer func() { <-s.turn }()
		sent <- write(feed, send)
	}()
	late := time.NewTimer(sendLimit)
	defer late.Stop()
	select {
	case err = <-sent:
	case <-late.C:
		return r.ID, refuse(facts.ReasonAttach, "the probe runs, and the line to it (through %s) did not open within %v", s.through, sendLimit)
	case <-ctx.Done():
		return r.ID, context.Cause(ctx)
	}
	switch {
	case err == nil, again && !s.closed.Load():
		return r.ID, nil
	case s.kept:
		return r.ID, errCut
	}
	if text := probe.OneLine(err.Error()); forbidden(text) {
		return r.ID, refuse(facts.ReasonRBAC, "no right to talk to the probe, which runs: %s", text)
	}
	return r.ID, refuse(facts.ReasonAttach, "the probe runs and cannot be talked to: %v", err)
}

// errCut is something that could not be sent and will not be sent again.
var errCut = errors.New("the line to the probe is cut: what was to be sent is lost")

// write sends requests, one a line.
func write(w io.Writer, requests []probe.Request) error {
	for _, r := range requests {
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("encoding a request: %w", err)
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends what was asked with that ID, if it is not answered yet: what is known of it
// still comes.
func (s *Session) Stop(ctx context.Context, id int64) error {
	_, err := s.Send(ctx, probe.Request{Type: probe.RequestStop, ID: id})
	return err
}

// Type hands on what was typed for the tool that was asked for with that ID, and the size
// its terminal has now, zero where that has not changed.
func (s *Session) Type(ctx context.Context, id int64, typed []byte, size probe.Size) error {
	_, err := s.Send(ctx, probe.Request{Type: probe.RequestTyped, ID: id, Typed: typed, Size: size})
	return err
}

// Abandon gives up on what was asked last: it is stopped, and what still comes of it is
// dropped. It is for the goroutine that calls Next.
func (s *Session) Abandon() {
	s.mu.Lock()
	s.given = s.ids
	id, open := s.ids, len(s.open) > 0
	s.mu.Unlock()
	if open {
		s.stopSoon(id)
	}
	for {
		select {
		case ev, more := <-s.events:
			if !more {
				return
			}
			s.took(ev)
		default:
			return
		}
	}
}

// stopSoon stops what was asked with an ID and waits for nothing: where that cannot be
// sent, it is stopped before the next is asked. One stop is on its way at a time.
func (s *Session) stopSoon(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = max(s.stopped, id)
	if s.stopping {
		return
	}
	s.stopping = true
	go func() {
		for sent := int64(0); ; {
			s.mu.Lock()
			last := s.stopped
			s.stopping = last > sent
			s.mu.Unlock()
			if last <= sent {
				return
			}
			_ = s.Stop(context.Background(), last)
			sent = last
		}
	}()
}

// Cut tells that there is no line to the probe just now, though another may be made.
func (s *Session) Cut() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.feed == nil }

// Gone is nil while the conversation can go on, and else why it cannot.
func (s *Session) Gone() error {
	select {
	case <-s.over:
	default:
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil || errors.Is(s.cause, io.EOF) {
		return errors.New("it ended")
	}
	return s.cause
}

// Next returns the next event of what was asked last, beats left out. io.EOF means
// that the probe ended with every plan answered; any other error that something is
// missing; the session can go on where it is not Gone.
func (s *Session) Next(ctx context.Context) (probe.Event, error) {
	for {
		select {
		case ev, more := <-s.events:
			if !more {
				return probe.Event{}, s.failure()
			}
			s.took(ev)
			if ev.of == 0 || s.wanted(ev.of) {
				return ev.Event, ev.err
			}
		case <-ctx.Done():
			return probe.Event{}, fmt.Errorf("the run was stopped before the probe's answer was whole: %w", context.Cause(ctx))
		}
	}
}

// wanted tells whether somebody still waits for the answer to a request.
func (s *Session) wanted(id int64) bool { s.mu.Lock(); defer s.mu.Unlock(); return id > s.given }

// failure is why there are no more events.
func (s *Session) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 {
		return io.EOF // a good end
	}
	err := s.cause
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the probe's answer broke off after %d events: %w", s.next, err)
}

// Close ends the probe and removes what was created, within 13 seconds, also when the context
// that the session was opened with has ended. A probe that has answered gets a second to end
// by itself; where it is seen to, its pod is deleted without a grace period.
func (s *Session) Close() error {
	s.closing.Do(func() {
		s.closed.Store(true)
		s.mu.Lock()
		ok, feed := s.next > 0 && len(s.open) == 0 && s.feed != nil, s.feed
		s.mu.Unlock()
		switch {
		case s.kept: // whose stdin does not end with the line
			go func() { _, _ = s.Send(context.Background(), probe.Request{Type: probe.RequestEnd}) }() // without it, it ends later
		case feed != nil:
			feed.Close() // the end of its stdin ends the probe
		}
		late := time.AfterFunc(ending, s.cancel)
		drained := make(chan struct{})
		go func() { // lets the readers go
			defer close(drained)
			for ev := range s.events {
				s.took(ev)
			}
		}()
		ended := false
		if ok {
			<-drained
			ended = late.Stop() // else it was the line that ended, by us
		}
		s.closeErr = s.remove(ok, ended)
		<-drained
		late.Stop()
		s.cancel()
		gone := make(chan struct{})
		go func() { s.ended.Wait(); close(gone) }()
		select {
		case <-gone:
		case <-time.After(ending): // a line that is being made may not hear of it before its own time is over
		}
	})
	return s.closeErr
}

// ending is how long a probe that was told to end may take before the line to
// it is cut.
const ending = time.Second
