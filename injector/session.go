package injector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Session is a connection to a probe and its open requests. It writes requests to the probe's stdin and reads events
// from its stdout. Each side sends beats. When they stop arriving, the other side notices that it is gone. A kept
// session reconnects after a lost connection (reconnect.go).
//
// Only one goroutine may call Next, and only that goroutine may send plans and calls. Any goroutine may call the other
// methods. Close may be called more than once.
type Session struct {
	created []string
	image   string                           // the probe's image as the kubelet reports it; "" = not reported
	remove  func(answered, ended bool) error // ended: the probe's exit was observed
	through string                           // the path from client to probe, for messages
	kept    bool                             // the probe outlives its connection
	first   time.Duration                    // time limit for the first event, if longer than silenceOnce
	closed  atomic.Bool

	writing chan struct{} // a lock: holds one element while requests are written to stdin
	events  chan reply    // events that Next has not yet returned
	queued  atomic.Int64  // memory of the events in the channel, in bytes
	freed   chan struct{} // holds one element after Next has taken an event from the channel
	done    chan struct{} // closed when the events end
	cancel  context.CancelFunc
	running probe.Workers // the goroutines of this session

	mu          sync.Mutex
	stdin       io.WriteCloser // stdin of the current connection; nil = the connection is lost
	pending     []question     // sent plans and calls whose answer is unfinished
	unrequested *probe.Intake  // filters events that do not answer a pending request
	lastID      int64          // ID of the last plan or call
	stopID      int64          // plans and calls up to this ID must stop
	stopping    bool           // stopSoon's goroutine runs
	abandonedID int64          // answers up to this ID are dropped
	missedID    int64          // answers up to this ID may lack events that the probe no longer has
	nextSeq     int64          // number of the next event
	resumed     bool           // the stream continues the previous one; false until the probe has resumed
	lastEvent   time.Time      // when the last event arrived
	blocked     bool           // the queue is full: the session does not read, and ignores silence
	endRead     func(error)    // ends the current stream
	onResumed   func()         // called when a new connection has resumed
	cause       error          // why the events end; set before done is closed

	closing  sync.Once
	closeErr error
}

// question is a sent plan or call, with the filter for its answer.
type question struct {
	probe.Request
	intake *probe.Intake
}

// reply is an event with the ID of the answered request, or 0.
type reply struct {
	probe.Event
	id  int64
	err error // instead of an event: the rest of this answer is missing
}

// Limits for the number and memory of events that wait for Next. While the user reads a pager, Next is not called.
// Beyond these limits the session stops reading, and the probe must wait.
const (
	maxQueued      = 4096
	maxQueuedBytes = probe.MaxHeld / 2
)

// init prepares the session for its first connection.
func (s *Session) init() {
	s.writing, s.done = make(chan struct{}, 1), make(chan struct{})
	s.events, s.freed = make(chan reply, maxQueued), make(chan struct{}, 1)
	s.unrequested = probe.NewIntake(probe.Request{})
}

// release subtracts the memory of an event taken from the channel.
func (s *Session) release(ev reply) {
	s.queued.Add(-int64(ev.Held()))
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

// Created describes the objects created for this session. Users who clean up manually need it.
func (s *Session) Created() []string { return s.created }

// ImageID returns the probe's image as the kubelet reports it: a name with a digest, or the digest of the image
// configuration. If the probe has no image, it returns "".
func (s *Session) ImageID() string { return s.image }

// sendLimit is the maximum time that a request waits for the connection to open.
const sendLimit = 20 * time.Second

// Send sends one request to the probe and returns its ID. A new plan or call abandons the previous one. If the
// connection does not open within 20 seconds, the error is a *PlacementError. While a kept probe's connection is lost,
// Send does not return an error: plans, calls and stops wait for the next connection.
func (s *Session) Send(ctx context.Context, r probe.Request) (id int64, err error) {
	asks := r.Type == probe.RequestPlan || r.Type == probe.RequestCall
	send := []probe.Request{r}
	s.mu.Lock()
	switch {
	case asks:
		if len(s.pending) > 0 {
			s.abandonedID, s.stopID = s.lastID, s.lastID
			send = slices.Insert(send, 0, probe.Request{Type: probe.RequestStop, ID: s.lastID})
		}
		s.lastID++
		r.ID = s.lastID
		send[len(send)-1] = r
		s.pending, s.lastEvent = append(s.pending, question{r, probe.NewIntake(r)}), time.Now()
	case r.Type == probe.RequestStop:
		s.stopID = max(s.stopID, r.ID)
	}
	stdin := s.stdin
	s.mu.Unlock()
	resent := s.kept && (asks || r.Type == probe.RequestStop) // by resume
	if stdin == nil {
		if resent {
			return r.ID, nil
		}
		return r.ID, errLost
	}
	sent := probe.Async(func() error { // ends when stdin is closed, or earlier
		s.writing <- struct{}{}
		defer func() { <-s.writing }()
		return write(stdin, send)
	})
	late := time.NewTimer(sendLimit)
	defer late.Stop()
	select {
	case err = <-sent:
	case <-late.C:
		return r.ID, refuse(facts.ReasonAttach, "the probe runs, and the connection to it (through %s) did not open within %v", s.through, sendLimit)
	case <-ctx.Done():
		return r.ID, context.Cause(ctx)
	}
	switch {
	case errors.As(err, new(*probe.Crash)): // another connection would not help
		return r.ID, err
	case err == nil, resent && !s.closed.Load():
		return r.ID, nil
	case s.kept:
		return r.ID, errLost
	}
	switch text := probe.OneLine(err.Error()); {
	case forbidden(text):
		return r.ID, refuse(facts.ReasonRBAC, "the probe runs, but you lack the right to attach to it: %s", text)
	case strings.Contains(text, kubeletCannotAsk):
		return r.ID, refuse(facts.ReasonNoAuthorizer, "the probe runs, but its kubelet cannot authorize the connection through the API server: %s", text)
	}
	return r.ID, Unattached("the probe runs, but the connection to it failed: %v", err)
}

// errLost is the error of a request that was not sent, and that resume will not repeat.
var errLost = errors.New("the connection to the probe was lost before the request was sent")

// errConnClosed is the error for a write to a closed connection.
var errConnClosed = errors.New("the connection is closed")

// write sends each request on one line.
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

// Stop ends the plan or call with that ID if it is unanswered. The results so far still arrive.
func (s *Session) Stop(ctx context.Context, id int64) error {
	_, err := s.Send(ctx, probe.Request{Type: probe.RequestStop, ID: id})
	return err
}

// Type sends typed input and the new terminal size to the call with that ID. Zero = size unchanged.
func (s *Session) Type(ctx context.Context, id int64, typed []byte, size probe.Size) error {
	_, err := s.Send(ctx, probe.Request{Type: probe.RequestTyped, ID: id, Typed: typed, Size: size})
	return err
}

// Abandon stops the last plan or call and drops the rest of its answer. Only the goroutine that calls Next may call it.
func (s *Session) Abandon() {
	s.mu.Lock()
	s.abandonedID = s.lastID
	id, unanswered := s.lastID, len(s.pending) > 0
	s.mu.Unlock()
	if unanswered {
		s.stopSoon(id)
	}
	for {
		select {
		case ev, more := <-s.events:
			if !more {
				return
			}
			s.release(ev)
		default:
			return
		}
	}
}

// stopSoon stops the plan or call with that ID, but does not wait until the stop is sent. If sending fails, the next
// plan or call repeats the stop. At most one goroutine sends stops at a time.
func (s *Session) stopSoon(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopID = max(s.stopID, id)
	if s.stopping {
		return
	}
	s.stopping = true
	probe.Detach(func() error {
		for sent := int64(0); ; {
			s.mu.Lock()
			last := s.stopID
			s.stopping = last > sent
			s.mu.Unlock()
			if last <= sent {
				return nil
			}
			_ = s.Stop(context.Background(), last)
			sent = last
		}
	}, func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stopping = false
		s.breakStream(fmt.Errorf("stopping a request: %w", err))
	})
}

// breakStream ends the current stream with a reason. The caller holds s.mu.
func (s *Session) breakStream(why error) {
	if s.endRead != nil {
		s.endRead(why)
		s.endRead = nil
	}
}

// Lost reports whether the connection is lost. A kept session may still reconnect.
func (s *Session) Lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stdin == nil
}

// Gone returns why the session cannot continue, or nil if it can.
func (s *Session) Gone() error {
	select {
	case <-s.done:
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

// Next returns the next event that answers the last plan or call, or that does not answer any request. It omits beats.
// io.EOF means that the probe answered everything and exited. Any other error means that events are missing. The
// session can continue unless Gone returns an error.
func (s *Session) Next(ctx context.Context) (probe.Event, error) {
	for {
		select {
		case ev, more := <-s.events:
			if !more {
				return probe.Event{}, s.failure()
			}
			s.release(ev)
			if ev.id == 0 || s.wanted(ev.id) {
				return ev.Event, ev.err
			}
		case <-ctx.Done():
			return probe.Event{}, fmt.Errorf("the run was stopped before the probe's answer was complete: %w", context.Cause(ctx))
		}
	}
}

// wanted reports whether the client still expects the answer to a request.
func (s *Session) wanted(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return id > s.abandonedID
}

// failure returns why the events ended.
func (s *Session) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == 0 {
		return io.EOF // a regular end
	}
	err := s.cause
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the probe's answer broke off after %d events: %w", s.nextSeq, err)
}

// Close stops the probe and removes the created objects within 13 seconds, even if the session's context has ended. A
// probe that has answered everything gets a second to exit on its own. If its exit was observed, its pod is deleted
// without a grace period.
func (s *Session) Close() error {
	s.closing.Do(func() {
		s.closed.Store(true)
		s.mu.Lock()
		stdin := s.stdin
		answered := s.nextSeq > 0 && len(s.pending) == 0 && stdin != nil
		s.mu.Unlock()
		crashed := make(chan error, 2)
		report := func(err error) { crashed <- err }
		switch {
		case s.kept: // its stdin stays open after the connection closes
			probe.Detach(func() error { // without this request the probe exits later, by its idle timeout
				_, err := s.Send(context.Background(), probe.Request{Type: probe.RequestEnd})
				if errors.As(err, new(*probe.Crash)) {
					return err
				}
				return nil
			}, report)
		case stdin != nil:
			stdin.Close() // closing stdin ends the probe
		}
		cut := time.AfterFunc(ending, s.cancel)
		drained := make(chan struct{})
		probe.Detach(func() error { // unblocks the goroutine that reads
			defer close(drained)
			for ev := range s.events {
				s.release(ev)
			}
			return nil
		}, report)
		ended := false
		if answered {
			<-drained
			ended = cut.Stop() // otherwise the connection was cut, and the probe may still run
		}
		s.closeErr = s.remove(answered, ended)
		<-drained
		cut.Stop()
		s.cancel()
		stopped := probe.Async(func() error { s.running.Wait(); return nil })
		select {
		case crash := <-stopped:
			s.closeErr = errors.Join(s.closeErr, crash)
		case <-time.After(ending): // a connection attempt may end only after its timeout
		}
		select {
		case crash := <-crashed:
			s.closeErr = errors.Join(s.closeErr, crash)
		default:
		}
	})
	return s.closeErr
}

// ending is the time that a probe gets to exit before its connection is cut.
const ending = time.Second
