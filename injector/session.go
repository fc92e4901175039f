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
)

// Session is a conversation with a probe. Next is for one goroutine, which also asks for
// plans and calls; all else may be called by any, and Close more than once.
type Session struct {
	created []string
	remove  func(answered, ended bool) error // ended: and was seen to
	through string                           // what the line leads through
	kept    bool                             // the probe outlives its line
	closed  atomic.Bool

	turn   chan struct{} // holds one while something is written to feed
	events chan told
	over   chan struct{} // closed once no more events come
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu      sync.Mutex
	feed    io.WriteCloser  // of the line there is now; nil = it is cut
	open    []probe.Request // plans and calls sent and not answered to their end
	ids     int64           // ID of the last of them
	stopped int64           // ID of the last that was to stop
	given   int64           // ID of the last whose answer nobody wants any more
	missed  int64           // ID of the last of whose answer something may be missing for good
	next    int64           // number of the next event wanted
	resumed bool            // what comes now follows on what came before
	heard   time.Time       // when the last event came
	full    bool            // nobody takes the events there are: no wonder that none comes
	cut     func(error)     // ends the stream that is read now
	back    func()          // is told when a line that was made again is of use
	cause   error           // why there are no more events, once over is closed

	closing  sync.Once
	closeErr error
}

// told is an event and the ID of the request it answers, 0 = none.
type told struct {
	probe.Event
	of  int64
	err error // instead of the event: there is no more of this answer
}

// waiting is how many events may wait for whoever asked, a pager perhaps that is being
// read: a few megabytes of output.
const waiting = 4096

// Created names what was created for this session, for whoever cleans up.
func (s *Session) Created() []string { return s.created }

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
		s.open, s.heard = append(s.open, r), time.Now()
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
		return r.ID, refuse(ReasonAttach, "the probe runs, and the line to it (through %s) did not open within %v", s.through, sendLimit)
	case <-ctx.Done():
		return r.ID, context.Cause(ctx)
	}
	switch {
	case err == nil, again && !s.closed.Load():
		return r.ID, nil
	case s.kept:
		return r.ID, errCut
	}
	if text := oneLine(err.Error()); forbidden(text) {
		return r.ID, refuse(ReasonRBAC, "no right to talk to the probe, which runs: %s", text)
	}
	return r.ID, refuse(ReasonAttach, "the probe runs and cannot be talked to: %v", err)
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
		case _, more := <-s.events:
			if !more {
				return
			}
		default:
			return
		}
	}
}

// stopSoon stops what was asked with an ID and waits for nothing: where that cannot be
// sent, it is stopped before the next is asked.
func (s *Session) stopSoon(id int64) {
	go func() { _ = s.Stop(context.Background(), id) }()
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

// Close ends the probe and removes what was created, within ten seconds and three
// farewells, also when the context the session was opened with has ended. A probe that
// has answered is given a farewell to end in first: where it is seen to, its pod goes at once.
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
		late := time.AfterFunc(farewell, s.cancel)
		drained := make(chan struct{})
		go func() { // lets the readers go
			defer close(drained)
			for range s.events {
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
		case <-time.After(farewell): // a line that is being made may not hear of it before its own time is over
		}
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
	s.turn, s.events, s.over = make(chan struct{}, 1), make(chan told, waiting), make(chan struct{})
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
		for began := time.Now(); reread != nil && s.owed() && ctx.Err() == nil && time.Since(began) < rereading; {
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

// patience is how long nothing may come now. It is for whoever holds mu.
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

// read passes on the events not seen before until the stream ends, or shows that
// something of it is missing.
func (s *Session) read(ctx context.Context, r io.Reader) error {
	d := probe.NewDecoder(r)
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
				return fmt.Errorf("the probe's last words: %s", noise)
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
		of, fresh, err := s.fresh(ev)
		switch {
		case err != nil:
			return err
		case !fresh:
			continue
		}
		if own, ok := ev.OfProbe(); ok {
			if err := s.pass(ctx, told{Event: own, of: of}); err != nil {
				return err
			}
		}
	}
}

// pass hands an event to whoever asked, however long they take. What is said of no
// request waits as long as there is room.
func (s *Session) pass(ctx context.Context, ev told) error {
	select {
	case s.events <- ev:
		return nil
	default:
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

// fresh tells whether an event is new and wanted, and of which request, and keeps count.
// The error says that events before it are missing: the numbers have a gap.
func (s *Session) fresh(ev probe.Event) (of int64, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.resumed { // it comes again; and a line on which nothing else comes is of no use
		return 0, false, nil
	}
	s.heard = time.Now()
	switch {
	case ev.Seq < s.next:
		return 0, false, nil
	case ev.Seq > s.next:
		return 0, false, fmt.Errorf("events %d to %d are missing", s.next, ev.Seq-1)
	}
	s.next++
	if len(s.open) == 0 || ev.Type == probe.EventLog {
		return 0, ev.Type == probe.EventLog, nil // an answer to nothing is none
	}
	if ev.Type == probe.EventStart && s.missed > 0 { // of those before it the end may be missing
		s.open = slices.DeleteFunc(s.open, func(r probe.Request) bool { return r.ID <= s.missed && r.ID < ev.Start.ID })
		if len(s.open) == 0 {
			return 0, false, nil
		}
	}
	of = s.open[0].ID // they are answered in order
	if ev.Type == probe.EventEnd {
		s.open = s.open[1:]
	}
	return of, of > max(s.given, s.missed), nil
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
