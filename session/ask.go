package session

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/prompt"
)

// patience is how long nothing is said while a probe does not: it says first that it has
// heard what is asked.
const patience = 3 * time.Second

// stopLimit is how long what was stopped may take to end.
const stopLimit = 4 * time.Second

// ask sends a plan or a call and gives each event of the answer to each. When ctx ends
// the probe is told to stop, and stays: what it says later than the limit is dropped. A
// probe that cannot be asked any more is let go.
func (s *nodeSession) ask(ctx context.Context, request probe.Request, each func(probe.Event)) error {
	session := s.session
	whole, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	var showing atomic.Bool // in a pager perhaps, that is being read
	var events atomic.Int64 // so far
	sent, stopped := make(chan struct{}), make(chan struct{})
	var id int64 // valid once it is sent
	unasked := context.AfterFunc(ctx, func() {
		defer close(stopped)
		select {
		case <-sent:
		case <-time.After(stopLimit):
			giveUp(fmt.Errorf("it could not be asked within %v", stopLimit))
			return
		case <-whole.Done():
			return
		}
		limit, cancel := context.WithTimeout(whole, stopLimit)
		err := session.Stop(limit, id)
		cancel()
		if err != nil {
			giveUp(err)
			return
		}
		tick := time.NewTicker(stopLimit / 40)
		defer tick.Stop()
		for left, before := 40, int64(-1); left > 0; {
			select {
			case <-tick.C:
				now := events.Load()
				if !showing.Load() || now != before { // else it is the same that is being read
					left--
				}
				before = now
			case <-prompt.Abandoned(ctx):
				left = 0
			case <-whole.Done():
				return
			}
		}
		giveUp(errors.New("it does not say so in time"))
	})
	defer func() {
		giveUp(nil)
		if !unasked() {
			<-stopped // or it would stop what is asked next
		}
	}()
	silent := time.AfterFunc(patience, func() {
		s.client.Progress("no word from the probe on %s for %v: still waiting, Ctrl-C ends the command", s.opts.Node, patience)
	})
	defer silent.Stop()
	var err error
	id, err = session.Send(whole, request)
	s.asked = id
	close(sent)
	reached := err == nil
	for err == nil {
		var ev probe.Event
		if ev, err = session.Next(whole); err == nil {
			silent.Stop()
			events.Add(1)
			showing.Store(true)
			each(ev)
			showing.Store(false)
			if ev.Type == probe.EventEnd {
				return nil
			}
		}
	}
	if ctx.Err() != nil && session.Gone() == nil {
		session.Abandon()
		why := "the probe does not say that it has stopped"
		if session.Cut() {
			why = "the line to the probe is cut"
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
