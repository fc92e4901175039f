package injector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// errMissing is an answer of which the probe no longer knows all that nobody heard.
var errMissing = errors.New("more was said while the line was cut than the probe remembers, so the rest of this answer is lost: ask again")

// afresh is how long to wait before a line is tried again.
const afresh = 500 * time.Millisecond

// sayCut is how long a line may be cut before that is said: most are back at once.
const sayCut = 2 * time.Second

// keep starts the goroutines of a session whose probe outlives its line: where that
// is cut, another is made, and what was missed is said again. gone is nil while the
// probe may be there, else why it is not.
func (s *Session) keep(ctx context.Context, node string, transport func(context.Context, io.Reader, io.Writer) error, gone func(context.Context) error, note func(string)) {
	ctx, s.cancel = context.WithCancel(ctx)
	s.begin()
	s.kept = true
	first := make(chan struct{})
	ready := sync.OnceFunc(func() { close(first) })
	s.ended.Go(func() { <-first; s.beat(ctx) })
	s.ended.Go(func() { s.listen(ctx) })
	s.ended.Go(func() {
		defer close(s.events)
		var err error
		var lost time.Time // when the line was cut, zero while there is one
		var why string
		var saying *time.Timer // says that it is cut
		s.back = func() {
			saying.Stop()
			if !lost.IsZero() {
				note(fmt.Sprintf("the line to the probe on %s was cut (%s) and is back after %v, with the same probe", node, why, time.Since(lost).Round(100*time.Millisecond)))
			}
			lost = time.Time{}
		}
		looked, looking := make(chan error, 1), false
		for again := false; ; again = true {
			if again && !looking { // beside the line that is made: on a dead one it takes its time too
				looking = true
				s.ended.Go(func() { looked <- gone(ctx) })
			}
			err = s.line(ctx, transport, again, ready)
			if ctx.Err() != nil || s.closed.Load() || errors.Is(err, probe.ErrTooMuch) || s.count() == 0 { // a first line of no use is not made again: nor would the next be, most likely
				break
			}
			if lost.IsZero() {
				lost, why = time.Now(), strings.TrimPrefix(err.Error(), "reading events: ")
				if silent(err) {
					lost = lost.Add(-quietKept)
				}
				text := fmt.Sprintf("the line to the probe on %s is cut (%s); making another for %v", node, why, probe.Silence)
				saying = time.AfterFunc(sayCut, func() { note(text) })
			}
			var it error
			select {
			case it = <-looked:
				looking = false
			default:
			}
			if it != nil {
				err = it
				break
			}
			if time.Since(lost) > probe.Silence {
				err = fmt.Errorf("no line to it for %v, so it has ended: %s", probe.Silence, why)
				break
			}
			select {
			case <-ctx.Done():
			case <-time.After(afresh):
			}
		}
		if saying != nil {
			saying.Stop()
		}
		s.end(err)
	})
	<-first
}

// line makes one line to the probe and reads from it until it breaks. On any but the
// first, the probe is asked for what was missed, and for what it was not asked yet.
// ready is called once something can be sent.
func (s *Session) line(ctx context.Context, transport func(context.Context, io.Reader, io.Writer) error, again bool, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, feed := io.Pipe()
	out, sink := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := transport(ctx, in, sink)
		in.CloseWithError(errOr(err, errors.New("the line is closed")))
		sink.CloseWithError(errOr(err, io.EOF))
	}()
	defer context.AfterFunc(ctx, func() { sink.CloseWithError(context.Cause(ctx)) })()
	s.mu.Lock()
	s.resumed = !again
	s.mu.Unlock()
	if again {
		go s.take(ctx, feed)
	} else {
		s.lead(feed)
	}
	s.reading(func(why error) { sink.CloseWithError(why) })
	ready()
	err := s.read(ctx, out)
	cancel() // first: what takes it now is too late
	s.lead(nil)
	in.CloseWithError(err)
	out.CloseWithError(err)
	select {
	case <-ended:
	case <-time.After(ending): // it does not hear of its end, and is not waited for
	}
	return err
}

// lead makes w where requests go from now on; nil = nowhere.
func (s *Session) lead(w io.WriteCloser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feed = w
}

// take goes on over a new line with all that was asked and is not answered, and makes
// it the one where requests go, if it is not over already.
func (s *Session) take(ctx context.Context, feed io.WriteCloser) {
	s.turn <- struct{}{} // nothing goes before what is sent here
	defer func() { <-s.turn }()
	// What the line before left unfinished ends here. It is taken once the line is open.
	if _, err := feed.Write([]byte("\n")); err != nil {
		return // the reader says why
	}
	s.mu.Lock()
	if ctx.Err() != nil {
		s.mu.Unlock()
		return
	}
	requests := []probe.Request{{Type: probe.RequestResume, Seq: s.next}}
	for _, r := range s.open {
		requests = append(requests, r.Request)
		if r.ID <= s.stopped {
			requests = append(requests, probe.Request{Type: probe.RequestStop, ID: r.ID})
		}
	}
	s.feed = feed
	s.mu.Unlock()
	_ = write(feed, requests) // the reader says why it cannot
}
