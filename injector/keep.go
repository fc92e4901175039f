package injector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// errMissing is a probe that no longer knows what it said while nobody heard it.
var errMissing = errors.New("more was said meanwhile than the probe remembers")

// afresh is how long to wait before a line is tried again.
const afresh = 500 * time.Millisecond

// keep starts the goroutines of a session whose probe outlives its line: where that
// is cut, another is made, and what was missed is said again. gone is nil while the
// probe may be there, else why it is not.
func (s *Session) keep(ctx context.Context, transport func(context.Context, io.Reader, io.Writer) error, gone func(context.Context) error, note func(string)) {
	ctx, s.cancel = context.WithCancel(ctx)
	s.kept, s.events = true, make(chan probe.Event, 64)
	first := make(chan struct{})
	ready := sync.OnceFunc(func() { close(first) })
	s.ended.Go(func() { <-first; s.beat(ctx) })
	s.ended.Go(func() { s.listen(ctx) })
	s.ended.Go(func() {
		defer close(s.events)
		var err error
		lost := time.Time{}
		for again := false; ; again = true {
			err = s.line(ctx, transport, again, ready, func() {
				if !lost.IsZero() {
					note("the line to the probe is back")
					lost = time.Time{}
				}
			})
			if ctx.Err() != nil || s.closed.Load() || errors.Is(err, errMissing) {
				break
			}
			if why := gone(ctx); why != nil {
				err = why
				break
			}
			if lost.IsZero() {
				lost = time.Now()
				note(fmt.Sprintf("the line to the probe is cut (%v); making another", err))
			}
			if time.Since(lost) > probe.Silence {
				err = fmt.Errorf("no line to the probe for %v, so it has ended: %w", probe.Silence, err)
				break
			}
			select {
			case <-ctx.Done():
			case <-time.After(afresh):
			}
		}
		s.fail(err)
	})
	<-first
}

// line makes one line to the probe and reads from it until it breaks. On any but the
// first, the probe is asked for what was missed, and for what it was not asked yet.
// ready is called once something can be sent, back once something was heard.
func (s *Session) line(ctx context.Context, transport func(context.Context, io.Reader, io.Writer) error, again bool, ready, back func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, feed := io.Pipe()
	out, sink := io.Pipe()
	s.sendMu.Lock() // nothing goes before what is sent here
	s.mu.Lock()
	s.feed, s.resumed = feed, !again
	requests := append([]probe.Request{{Type: probe.RequestResume, Seq: s.next}}, s.open...)
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := transport(ctx, in, sink)
		in.CloseWithError(errOr(err, errors.New("the line is closed")))
		sink.CloseWithError(errOr(err, io.EOF))
	}()
	go func() {
		defer s.sendMu.Unlock()
		for _, r := range requests {
			if !again {
				return
			}
			line, err := json.Marshal(r)
			if err == nil {
				_, err = feed.Write(append(line, '\n'))
			}
			if err != nil { // the line is gone; the reader says so
				return
			}
		}
	}()
	s.reading(func() { out.CloseWithError(errSilent) })
	ready()
	err := s.read(ctx, &heardReader{out, back})
	cancel()
	out.CloseWithError(err)
	<-ended
	return err
}

// heardReader tells of the first thing it reads.
type heardReader struct {
	io.Reader
	heard func()
}

func (h *heardReader) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	if n > 0 && h.heard != nil {
		h.heard()
		h.heard = nil
	}
	return n, err
}
