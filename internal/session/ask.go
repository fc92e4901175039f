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

// patience is how long nothing is said while a probe does not: it says first that it has
// heard what is asked.
const patience = 3 * time.Second

// stopLimit is how long what was stopped may take to end.
const stopLimit = 4 * time.Second

// exchange is one request and the answer that is being read.
type exchange struct {
	session *injector.Session
	id      int64         // valid once it is sent
	sent    chan struct{} // closed then
	stopped chan struct{} // closed once stop has returned
	showing atomic.Bool   // an event is being shown, in a pager perhaps, that is being read
	events  atomic.Int64  // so far
	giveUp  context.CancelCauseFunc
}

// ask sends a plan or a call and gives each event of the answer to each. When ctx ends
// the probe is told to stop, and stays: what it says later than the limit is dropped. A
// probe that cannot be asked any more is let go.
func (s *nodeSession) ask(ctx context.Context, request probe.Request, each func(probe.Event)) error {
	whole, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	x := &exchange{session: s.session, sent: make(chan struct{}), stopped: make(chan struct{}), giveUp: giveUp}
	unasked := context.AfterFunc(ctx, func() { x.stop(ctx, whole) })
	defer func() {
		giveUp(nil)
		if !unasked() {
			<-x.stopped // or it would stop what is asked next
		}
	}()
	silent := time.AfterFunc(patience, func() {
		s.client.Progress("no response from the probe on %s for %v: still waiting, Ctrl-C stops the command", s.opts.Node, patience)
	})
	defer silent.Stop()
	var err error
	x.id, err = x.session.Send(whole, request)
	s.asked = x.id
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

// stop tells the probe to stop, and gives up on the answer where its end does not come in
// time. The time in which the user reads what is shown already does not count.
func (x *exchange) stop(ctx, whole context.Context) {
	defer close(x.stopped)
	select {
	case <-x.sent:
	case <-time.After(stopLimit):
		x.giveUp(fmt.Errorf("it could not be asked within %v", stopLimit))
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
			if !x.showing.Load() || now != before { // else the user reads the same event still
				left--
			}
			before = now
		case <-prompt.Abandoned(ctx):
			left = 0
		case <-whole.Done():
			return
		}
	}
	x.giveUp(errors.New("it does not say so in time"))
}

// broken is the error of an answer that did not come to its end; reached says that the
// request was sent. A probe that cannot be asked any more is let go.
func (s *nodeSession) broken(ctx context.Context, session *injector.Session, reached bool, err error) error {
	if ctx.Err() != nil && session.Gone() == nil {
		session.Abandon()
		why := "the probe does not say that it has stopped"
		if session.Lost() {
			why = "the connection to the probe is lost"
		}
		return fmt.Errorf("stopped, and %s: what it still says of this is not waited for", why)
	}
	if reached && session.Gone() == nil { // something of this answer is lost, and of no other
		return err
	}
	if left := s.letGo(); left != nil { // which is not why
		s.client.Note("%v", left)
	}
	return err
}
