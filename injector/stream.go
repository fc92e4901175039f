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

// start starts the goroutines of a session whose probe exits with its connection. If the connection breaks before every
// request is answered, openLog opens the probe's output from the beginning. If openLog is nil, the access method has no
// log.
func (s *Session) start(
	ctx context.Context, connect connectFunc, openLog func(context.Context) (io.ReadCloser, error),
) {
	ctx, s.cancel = context.WithCancel(ctx)
	in, stdin := io.Pipe()
	out, stdout := io.Pipe()
	s.init()
	s.stdin, s.resumed = stdin, true
	s.running.Go(func() {
		err := probe.Recovered(func() error { return connect(ctx, in, stdout) })
		in.CloseWithError(errOr(err, errConnClosed))
		stdout.CloseWithError(errOr(err, io.EOF))
	})
	s.running.Go(func() { s.sendBeats(ctx) })
	s.running.Go(func() { s.watchSilence(ctx) })
	s.running.Go(func() {
		defer close(s.events)
		// Reading ends when ctx ends, even if the transport ignores ctx.
		defer context.AfterFunc(ctx, func() { stdout.CloseWithError(context.Cause(ctx)) })()
		s.nowReading(func(why error) { stdout.CloseWithError(why) })
		s.end(probe.Recovered(func() error {
			err := s.read(ctx, out)
			out.Close()
			if openLog != nil {
				err = s.readLog(ctx, openLog, err)
			}
			return err
		}))
	})
}

// end records why the events end.
func (s *Session) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cause, s.endRead = err, nil
	close(s.done)
}

// logLimit is the time without new events after which the log is no longer reread every second. kubeadm's systemd unit
// restarts a kubelet after 10 seconds, and the kubelet needs a few more seconds to answer.
const logLimit = 20 * time.Second

// readLog reads the log after the connection broke with an error, until every request is answered or no new event
// arrives. It returns why the events end.
func (s *Session) readLog(
	ctx context.Context, openLog func(context.Context) (io.ReadCloser, error), broke error,
) error {
	err := broke
	for last := time.Now(); s.unanswered() && ctx.Err() == nil && !errors.Is(err, probe.ErrTooMuch) &&
		time.Since(last) < logLimit; {
		before := s.count()
		failed := s.readLogOnce(ctx, openLog)
		if s.count() > before {
			last = time.Now()
		}
		if !silent(err) { // a silent probe is a better explanation than an unreadable log
			err = failed
		}
	}
	return err
}

// readLogOnce reads the log to its end, then waits a second if a request is still unanswered.
func (s *Session) readLogOnce(ctx context.Context, openLog func(context.Context) (io.ReadCloser, error)) error {
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.nowReading(cancel)
	log, err := openLog(reading)
	if err == nil {
		err = s.read(reading, log)
		log.Close()
	}
	if why := context.Cause(reading); silent(why) {
		return why
	}
	if s.unanswered() {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return err
}

// count returns the number of received events.
func (s *Session) count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nextSeq
}

// The maximum time that a probe with an open request may be silent. A probe sends a beat every five seconds. A kept
// session waits for less time, because it can reconnect and has little time: the probe exits 30 seconds after its
// client's last message (probe.Silence). If a new connection is dead from the start, there must be time left for
// another connection.
const (
	silenceOnce = 3 * probe.BeatEvery
	silenceKept = 2*probe.BeatEvery + 2*time.Second
	silenceNew  = 8 * time.Second // on a new connection, until the probe has resumed
)

// silentError is the error for a connection that was silent for too long.
type silentError time.Duration

func (e silentError) Error() string {
	return fmt.Sprintf("no output from the probe for %v, although it runs: its node, kubelet or container runtime froze, or the connection to it is dead", time.Duration(e))
}

// silent reports whether a connection was closed because of its silence.
func silent(err error) bool {
	_, is := errors.AsType[silentError](err)
	return is
}

// silenceLimit returns the current limit for the connection's silence. The caller holds mu.
func (s *Session) silenceLimit() time.Duration {
	switch {
	case s.nextSeq == 0: // a slow node may take long for the first event
		return max(silenceOnce, s.first)
	case !s.kept:
		return silenceOnce
	case !s.resumed:
		return silenceNew
	}
	return silenceKept
}

// nowReading sets the function that ends the stream being read.
func (s *Session) nowReading(end func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endRead, s.lastEvent = end, time.Now()
}

// watchSilence ends a stream that has been silent for too long.
func (s *Session) watchSilence(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.mu.Lock()
			limit, waits := s.silenceLimit(), s.kept || len(s.pending) > 0
			if waits && s.endRead != nil && !s.blocked && time.Since(s.lastEvent) > limit {
				s.breakStream(silentError(limit))
			}
			s.mu.Unlock()
		}
	}
}

// discardLimit bounds the part of a stream that is discarded within a minute. This part has lines that are not events,
// repeated events, and events that do not answer a request.
type discardLimit struct {
	from  io.Reader
	left  int // bytes
	since time.Time
}

// maxDiscarded is larger than a complete plan's log, because every line may be a repetition.
const maxDiscarded = probe.MaxHeld

func (s *discardLimit) Read(b []byte) (int, error) {
	if now := time.Now(); now.Sub(s.since) > time.Minute {
		s.left, s.since = maxDiscarded, now
	}
	if s.left <= 0 {
		return 0, fmt.Errorf("%w: more than %d MiB of unrequested output in a minute; the rest is not read",
			probe.ErrTooMuch, maxDiscarded>>20)
	}
	n, err := s.from.Read(b)
	s.left -= n
	return n, err
}

// read delivers the new events of a stream until the stream ends or an event is missing.
func (s *Session) read(ctx context.Context, r io.Reader) error {
	in := &discardLimit{from: r}
	d := probe.NewLiveDecoder(in)
	var noise string
	d.Noise = func(line string) {
		if !strings.HasPrefix(line, `{"seq":`) { // otherwise it is part of an event
			noise = line
		}
	}
	for {
		ev, err := d.Next()
		if err != nil {
			if noise != "" && errors.Is(err, io.EOF) {
				return fmt.Errorf("the probe's last output: %s", probe.Cut(probe.Line(noise), shownWords))
			}
			return err
		}
		noise = ""
		if ev.Type == probe.EventResume {
			if lost := s.resumeFrom(ev.Seq); lost > 0 {
				s.stopSoon(lost)
				if err := s.deliver(ctx, reply{id: lost, err: errMissing}); err != nil {
					return err
				}
			}
			continue
		}
		accepted, err := s.accept(ev)
		if err != nil {
			return err
		}
		if len(accepted) > 0 {
			in.left += d.Size
		}
		for _, ev := range accepted {
			if err := s.deliver(ctx, ev); err != nil {
				return err
			}
		}
	}
}

// shownWords bounds the quoted part of a line that is not an event, in bytes.
const shownWords = 400

// deliver queues an event for Next, and waits while the queue is full. If the queue is full, it drops events that do
// not answer a request.
func (s *Session) deliver(ctx context.Context, ev reply) error {
	if s.queued.Load() < maxQueuedBytes {
		select {
		case s.events <- ev:
			s.queued.Add(int64(ev.Held()))
			return nil
		default:
		}
	}
	if ev.id == 0 {
		return nil
	}
	s.setBlocked(true)
	defer s.setBlocked(false)
	for s.queued.Load() >= maxQueuedBytes {
		select {
		case <-s.freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.queued.Add(int64(ev.Held()))
	select {
	case s.events <- ev:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Session) setBlocked(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked, s.lastEvent = is, time.Now()
}

// resumeFrom records that the probe has resumed with event number seq. If seq is higher than requested, events may be
// missing from the answers to all unanswered requests. It then returns the ID of the last of these requests, whose
// answer is lost. The earlier requests were abandoned.
func (s *Session) resumeFrom(seq int64) (lost int64) {
	s.mu.Lock()
	if seq > s.nextSeq {
		s.nextSeq = seq
		if len(s.pending) > 0 {
			s.missedID, lost = s.lastID, s.lastID
		}
	}
	first := !s.resumed
	s.resumed, s.lastEvent = true, time.Now()
	s.mu.Unlock()
	if first && s.onResumed != nil {
		s.onResumed()
	}
	return lost
}

// accept checks an event and counts it. It returns the events for Next: two if a part was cut, none if the event is a
// repetition or does not answer a request. The error reports a gap in the numbers, or too much output.
func (s *Session) accept(ev probe.Event) ([]reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.resumed { // an old event does not show that the probe is alive: the connection has not resumed
		return nil, nil
	}
	s.lastEvent = time.Now()
	switch {
	case ev.Seq < s.nextSeq:
		return nil, nil
	case ev.Seq > s.nextSeq:
		return nil, fmt.Errorf("events %d to %d are missing", s.nextSeq, ev.Seq-1)
	}
	s.nextSeq++
	if ev.Type == probe.EventStart && s.missedID > 0 { // the missing events may include the ends of earlier answers
		s.pending = slices.DeleteFunc(s.pending, func(q question) bool { return q.ID <= s.missedID && q.ID < ev.Start.ID })
	}
	if len(s.pending) == 0 && ev.Type != probe.EventLog {
		return nil, nil
	}
	q := question{intake: s.unrequested}
	if len(s.pending) > 0 {
		q = s.pending[0] // the probe answers in order
	}
	accepted, err := q.intake.Take(ev, q.ID <= s.stopID)
	if err != nil {
		return nil, err
	}
	if ev.Type == probe.EventEnd {
		s.pending = s.pending[1:]
	}
	wanted := q.ID > max(s.abandonedID, s.missedID)
	var out []reply
	for _, own := range accepted {
		switch {
		case ev.Type == probe.EventLog:
			out = append(out, reply{Event: own})
		case wanted:
			out = append(out, reply{Event: own, id: q.ID})
		}
	}
	return out, nil
}

// unanswered reports whether the answer to any plan or call is unfinished.
func (s *Session) unanswered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending) > 0
}

// sendBeats sends the probe a beat every five seconds. Without beats a kept probe exits.
func (s *Session) sendBeats(ctx context.Context) {
	tick := time.NewTicker(probe.BeatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := s.Send(ctx, probe.Request{Type: probe.RequestBeat}); err != nil && !s.kept {
				return // the connection is lost; read returns why
			}
		}
	}
}

// errOr returns err. If err is nil, it returns otherwise.
func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
