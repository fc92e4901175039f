package session

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/probe"
)

// patience is the time to wait for a probe before a message is shown. A probe acknowledges each request immediately, so
// a longer silence means a slow node or connection.
const patience = 3 * time.Second

// stopLimit is the time limit for a stopped command to end.
const stopLimit = 4 * time.Second

// exchange is one request whose answer is being read.
type exchange struct {
	session *injector.Session
	id      int64         // valid once sent is closed
	sent    chan struct{} // closed when the request is sent
	stopped chan struct{} // closed when stop has returned
	showing atomic.Bool   // an event is being shown, possibly in a pager that the user reads
	events  atomic.Int64  // number of events so far
	giveUp  context.CancelCauseFunc
}

// ask sends a plan or a call, and passes each event of the answer to each. When ctx ends, it tells the probe to stop
// the request, but the probe itself keeps running. It drops events after the time limit. If a probe no longer accepts
// requests, ask abandons it.
func (s *nodeSession) ask(ctx context.Context, request probe.Request, each func(probe.Event)) error {
	whole, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	x := &exchange{session: s.session, sent: make(chan struct{}), stopped: make(chan struct{}), giveUp: giveUp}
	cancelStop := context.AfterFunc(ctx, func() { x.stop(ctx, whole) })
	defer func() {
		giveUp(nil)
		if !cancelStop() {
			<-x.stopped // otherwise it might stop the next request
		}
	}()
	silent := time.AfterFunc(patience, func() {
		s.client.Progress("no response from the probe on %s for %v: still waiting, Ctrl-C stops the command", s.opts.Node, patience)
	})
	defer silent.Stop()
	var err error
	x.id, err = x.session.Send(whole, request)
	s.lastID = x.id
	close(x.sent)
	reached := err == nil
	for err == nil {
		var ev probe.Event
		if ev, err = x.session.Next(whole); err == nil {
			silent.Stop()
			x.events.Add(1)
			x.showing.Store(true)
			each(ev)
			x.showing.Store(false)
			if ev.Type == probe.EventEnd {
				return nil
			}
		}
	}
	return s.broken(ctx, x.session, reached, err)
}

// stop tells the probe to stop the request. If the answer does not end in time, stop gives up on it. The time in which
// the user reads an event does not count.
func (x *exchange) stop(ctx, whole context.Context) {
	defer close(x.stopped)
	select {
	case <-x.sent:
	case <-time.After(stopLimit):
		x.giveUp(fmt.Errorf("it accepted no request within %v", stopLimit))
		return
	case <-whole.Done():
		return
	}
	limit, cancel := context.WithTimeout(whole, stopLimit)
	err := x.session.Stop(limit, x.id)
	cancel()
	if err != nil {
		x.giveUp(err)
		return
	}
	tick := time.NewTicker(stopLimit / 40)
	defer tick.Stop()
	for left, before := 40, int64(-1); left > 0; {
		select {
		case <-tick.C:
			now := x.events.Load()
			if !x.showing.Load() || now != before { // if not, the user is still reading the same event
				left--
			}
			before = now
		case <-prompt.Abandoned(ctx):
			left = 0
		case <-whole.Done():
			return
		}
	}
	x.giveUp(errors.New("it did not confirm the stop in time"))
}

// broken returns the error for an incomplete answer. reached means that the request was sent. If the probe no longer
// accepts requests, broken gives up on it.
func (s *nodeSession) broken(ctx context.Context, session *injector.Session, reached bool, err error) error {
	if ctx.Err() != nil && session.Gone() == nil {
		session.Abandon()
		why := "the probe did not confirm the stop"
		if session.Lost() {
			why = "the connection to the probe is lost"
		}
		return fmt.Errorf("stopped, but %s: later output of this command is dropped", why)
	}
	if reached && session.Gone() == nil { // only this answer is incomplete
		return err
	}
	if left := s.letGo(); left != nil { // a different error than err
		s.client.Note("%v", left)
	}
	return err
}
