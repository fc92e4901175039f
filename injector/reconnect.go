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

// errMissing ends an answer if the probe no longer has all of its events.
var errMissing = errors.New("while disconnected, the probe wrote more than it buffers, so the rest of this answer is missing: run it again")

// reconnectPause is the wait between two attempts to reconnect.
const reconnectPause = 500 * time.Millisecond

// noticeAfter is the time without a connection after which the user is notified. Most connections return immediately.
const noticeAfter = 2 * time.Second

// connectFunc copies stdin to a probe, and the probe's stdout back, until either side ends.
type connectFunc func(ctx context.Context, in io.Reader, out io.Writer) error

// startKept starts the goroutines of a session whose probe survives a lost connection. The session reconnects, and the
// probe repeats the missed events. probeEnded returns why the probe is gone, or nil if it may still run.
func (s *Session) startKept(
	ctx context.Context, node string, connect connectFunc, probeEnded func(context.Context) error, note func(string),
) {
	ctx, s.cancel = context.WithCancel(ctx)
	s.init()
	s.kept = true
	lost := &outage{node: node, note: note}
	s.onResumed = lost.end
	connected := make(chan struct{})
	ready := sync.OnceFunc(func() { close(connected) })
	s.running.Go(func() { <-connected; s.sendBeats(ctx) })
	s.running.Go(func() { s.watchSilence(ctx) })
	s.running.Go(func() {
		defer close(s.events)
		defer ready()
		s.end(probe.Recovered(func() error { return s.reconnect(ctx, connect, probeEnded, lost, ready) }))
	})
	<-connected
}

// reconnect opens a connection, reads from it until it breaks, and then opens the next. It returns why it gave up.
func (s *Session) reconnect(
	ctx context.Context, connect connectFunc, probeEnded func(context.Context) error, lost *outage, ready func(),
) error {
	defer lost.stopWarning()
	checked, checking := make(chan error, 1), false
	for again := false; ; again = true {
		// Query the API for the probe in parallel with the next attempt, because both are slow on a dead network.
		if again && !checking {
			checking = true
			s.running.Go(func() { checked <- probe.Recovered(func() error { return probeEnded(ctx) }) })
		}
		err := s.connect(ctx, connect, again, ready)
		if ctx.Err() != nil || s.closed.Load() || errors.Is(err, probe.ErrTooMuch) {
			return err
		}
		if s.count() == 0 { // even the first connection delivered nothing; a retry is unlikely to help
			return err
		}
		lost.begin(err)
		select {
		case ended := <-checked:
			checking = false
			if ended != nil {
				return ended
			}
		default:
		}
		if time.Since(lost.since) > probe.Silence {
			return fmt.Errorf("no connection to it for %v, so it has exited: %s", probe.Silence, lost.why)
		}
		select {
		case <-ctx.Done():
		case <-time.After(reconnectPause):
		}
	}
}

// outage is a period without a connection. It can include several attempts to reconnect. Only the goroutine that
// reconnects uses it.
type outage struct {
	node    string
	note    func(string)
	since   time.Time // zero while connected
	why     string
	warning *time.Timer // notifies the user unless the connection is back first
}

// begin records the first lost connection of an outage.
func (o *outage) begin(err error) {
	if !o.since.IsZero() {
		return
	}
	o.since, o.why = time.Now(), strings.TrimPrefix(err.Error(), "reading events: ")
	if silent(err) {
		o.since = o.since.Add(-silenceKept)
	}
	text := fmt.Sprintf("the connection to the probe on %s is lost (%s); reconnecting for up to %v", o.node, o.why, probe.Silence)
	o.warning = time.AfterFunc(noticeAfter, func() { o.note(text) })
}

// end records that the connection to the same probe is back.
func (o *outage) end() {
	o.stopWarning()
	if !o.since.IsZero() {
		o.note(fmt.Sprintf("the connection to the probe on %s was lost (%s) and is back after %v, with the same probe",
			o.node, o.why, time.Since(o.since).Round(100*time.Millisecond)))
	}
	o.since = time.Time{}
}

func (o *outage) stopWarning() {
	if o.warning != nil {
		o.warning.Stop()
	}
}

// connect opens one connection to the probe and reads from it until it breaks. Every connection after the first
// resumes: the probe repeats missed events, and the session repeats requests that may have been lost. connect calls
// ready as soon as requests can be sent.
func (s *Session) connect(ctx context.Context, connect connectFunc, again bool, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, stdin := io.Pipe()
	out, stdout := io.Pipe()
	breaks := func(why error) { stdout.CloseWithError(why) }
	ended := make(chan struct{})
	probe.Detach(func() error {
		defer close(ended)
		err := probe.Recovered(func() error { return connect(ctx, in, stdout) })
		in.CloseWithError(errOr(err, errConnClosed))
		stdout.CloseWithError(errOr(err, io.EOF))
		return nil
	}, breaks)
	defer context.AfterFunc(ctx, func() { breaks(context.Cause(ctx)) })()
	s.mu.Lock()
	s.resumed = !again
	s.mu.Unlock()
	if again {
		probe.Detach(func() error { s.resume(ctx, stdin); return nil }, breaks)
	} else {
		s.setStdin(stdin)
	}
	s.nowReading(breaks)
	ready()
	err := s.read(ctx, out)
	cancel() // before setStdin(nil): a late resume must not restore this stdin
	s.setStdin(nil)
	in.CloseWithError(err)
	out.CloseWithError(err)
	select {
	case <-ended:
	case <-time.After(ending): // do not wait for a transport that ignores its context
	}
	return err
}

// setStdin sets the destination of requests; nil = no connection.
func (s *Session) setStdin(w io.WriteCloser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stdin = w
}

// resume requests the missed events over a new connection, repeats all unanswered requests, and makes this connection
// the destination of requests.
func (s *Session) resume(ctx context.Context, stdin io.WriteCloser) {
	s.writing <- struct{}{} // these precede all other requests
	defer func() { <-s.writing }()
	// An empty line ends a partial line from the previous connection. The write returns once the new connection is open.
	if _, err := stdin.Write([]byte("\n")); err != nil {
		return // read returns why
	}
	s.mu.Lock()
	if ctx.Err() != nil {
		s.mu.Unlock()
		return
	}
	requests := []probe.Request{{Type: probe.RequestResume, Seq: s.nextSeq}}
	for _, q := range s.pending {
		requests = append(requests, q.Request)
		if q.ID <= s.stopID {
			requests = append(requests, probe.Request{Type: probe.RequestStop, ID: q.ID})
		}
	}
	s.stdin = stdin
	s.mu.Unlock()
	_ = write(stdin, requests) // read returns the reason
}
