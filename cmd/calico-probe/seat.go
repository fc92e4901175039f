package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/prompt"
	"github.com/calico-probe/calico-probe/report"
)

// seat is one node of a session: the probe that stays there and all it has answered.
type seat struct {
	o       *runOptions // for this node; each run has a copy
	client  *cluster.Client
	snap    *cluster.Snapshot
	ahead   chan *cluster.Snapshot // what is being read in the background, nil if it cannot be; nil = nothing is
	session *injector.Session      // nil = no probe is there
	lost    bool                   // there was one
	brought int                    // how many there were
	asked   int64                  // what it was asked last
	way     string
	tools   []string // what that probe has
	run     report.Latest
}

// freshFor is how long what the API says is believed between two commands: a check asked
// again and again does not ask all of that anew, nor wait for it.
const freshFor = 10 * time.Second

// fresh is what the API says of the node, as of ten seconds ago at most. What is used in
// the second half of that time is read anew meanwhile, for the next command.
func (s *seat) fresh(ctx context.Context) (*cluster.Client, *cluster.Snapshot, error) {
	if s.client == nil { // none yet, or the way that asks no API
		var err error
		s.client, s.snap, err = s.o.read(ctx)
		return s.client, s.snap, err
	}
	var read *cluster.Snapshot
	select {
	case read = <-s.ahead:
		s.ahead = nil
	default:
	}
	if s.old(freshFor) && s.ahead != nil && read == nil {
		select {
		case read = <-s.ahead:
			s.ahead = nil
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
	if read != nil {
		s.snap = read
	}
	if s.old(freshFor) {
		snap, err := s.client.Read(ctx, s.o.node)
		if err != nil {
			return nil, nil, notSuchNode(err)
		}
		s.snap = snap
	}
	if s.old(freshFor/2) && s.ahead == nil {
		ahead, client, node := make(chan *cluster.Snapshot, 1), s.client, s.o.node
		s.ahead = ahead
		go func() { // reading has a limit of its own
			snap, _ := client.Read(context.WithoutCancel(ctx), node) // who needs it asks again, and says why it cannot
			ahead <- snap
		}()
	}
	return s.client, s.snap, nil
}

// old tells whether what the API said is older than that.
func (s *seat) old(than time.Duration) bool { return time.Since(s.snap.Read) > than }

// place has a probe on the node when there is none, or none any more. Where no way works
// the reasons are results of o, and there is none still.
func (s *seat) place(ctx context.Context, o *runOptions, snap *cluster.Snapshot) error {
	if s.session != nil {
		gone := s.session.Gone()
		if gone == nil {
			return nil
		}
		say(o.ErrOut, "the probe on %s has gone (%v): bringing another", s.o.node, gone)
		if err := s.letGo(); err != nil {
			say(o.ErrOut, "%v", err)
		}
	} else if s.lost {
		say(o.ErrOut, "bringing another probe to %s", s.o.node)
	}
	s.lost = false
	steps, err := o.ladder()
	if err != nil {
		return err
	}
	for i := range steps { // the probe is to outlive the command that wanted it
		open := steps[i].open
		steps[i].open = func(ctx context.Context, opts injector.Options) (*injector.Session, error) {
			// What is brought for one check has to do for every command that follows.
			opts.Needed, opts.Checks = probe.Capabilities(s.o.picked), s.o.nodeChecks()
			own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
			opened := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
			session, err := open(own, opts)
			opened()
			return session, err
		}
	}
	talk := func(way string, session *injector.Session, took time.Duration, said []probe.Event, last bool) (*probe.Event, error) {
		var tools []string
		err := answer(ctx, session, probe.Request{Type: probe.RequestPlan, Plan: &probe.Plan{Run: o.id, Node: o.node, Way: way}}, func(ev probe.Event) bool {
			if ev.Start != nil {
				tools = ev.Start.Tools
			}
			return true
		})
		if err == nil {
			s.session, s.way, s.tools = session, way, tools
			s.brought++
			if err := o.arrived(way, session, took, said); err != nil {
				return nil, errors.Join(err, s.leave())
			}
			return nil, nil
		}
		err = errors.Join(err, session.Close())
		ev := unanswered(err)
		ev.Way = way
		if last || ctx.Err() != nil {
			return nil, o.emit(way, ev)
		}
		return &ev, nil
	}
	return o.climb(ctx, steps, snap, func() bool { return true }, talk)
}

// askNode asks the probe on the node what a run wants to know of it.
func (s *seat) askNode(ctx context.Context, o *runOptions, snap *cluster.Snapshot) error {
	if err := s.place(ctx, o, snap); err != nil || s.session == nil {
		return err
	}
	plan := o.plan(s.way, snap)
	var writing error
	err := s.ask(ctx, probe.Request{Type: probe.RequestPlan, Plan: &plan}, func(ev probe.Event) {
		if writing == nil {
			writing = o.emit(s.way, ev)
		}
	})
	switch {
	case writing != nil:
		return writing
	case err != nil:
		return o.emit(s.way, unanswered(err))
	case ctx.Err() == nil && o.proves(snap):
		err := o.prove(ctx, s.session, snap)
		if ctx.Err() != nil { // its half of the proof is not waited for
			s.session.Abandon()
		}
		return err
	}
	return nil
}

// patience is how long nothing is said while a probe does not: it says first that it has
// heard what is asked.
const patience = 3 * time.Second

// stopLimit is how long what was stopped may take to end.
const stopLimit = 4 * time.Second

// ask sends a plan or a call and gives each event of the answer to each. When ctx ends
// the probe is told to stop, and stays: what it says later than the limit is dropped. A
// probe that cannot be asked any more is let go.
func (s *seat) ask(ctx context.Context, request probe.Request, each func(probe.Event)) error {
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
		s.o.progress("no word from the probe on %s for %v: still waiting, Ctrl-C ends the command", s.o.node, patience)
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
		say(s.o.ErrOut, "%v", left)
	}
	return err
}

// letGo leaves a probe that cannot be asked any more. The next command brings another.
func (s *seat) letGo() error {
	s.lost = true
	return s.leave()
}

// leave ends the probe, if there is one, and removes what was created for it.
func (s *seat) leave() error {
	if s.session == nil {
		return nil
	}
	err := s.session.Close()
	s.session = nil
	if err != nil {
		return fmt.Errorf("%s: cleaning up: %w", s.o.node, err)
	}
	return nil
}

// leaveAll leaves every node at once: it takes as long as the slowest.
func leaveAll(seats []*seat) error {
	errs := make([]error, len(seats))
	var all sync.WaitGroup
	for i, s := range seats {
		all.Go(func() { errs[i] = s.leave() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// ready has a probe on the node, a new one where the last is lost.
func (s *seat) ready(ctx context.Context) error {
	lost := s.lost || s.session != nil
	if s.lost || s.session != nil && s.session.Gone() != nil {
		_, snap, err := s.fresh(ctx)
		if err != nil {
			return fmt.Errorf("the probe on %s has gone, and where to put another is not known: %w", s.o.node, err)
		}
		s.o.id = newRunID() // what the last one was in may still be ending
		if err := s.place(ctx, s.o, snap); err != nil {
			return err
		}
	}
	switch {
	case s.session == nil && ctx.Err() != nil:
		s.lost = lost // the next command brings it
		return context.Cause(ctx)
	case s.session == nil:
		return notAsked("there is no probe on %s: 'node %s' says why, and tries again", s.o.node, s.o.node)
	}
	return nil
}

// call runs a tool on the node. The result is how it went; what it writes is given to
// each, piece by piece.
func (s *seat) call(ctx context.Context, c probe.Call, each func(probe.Event)) (probe.Result, error) {
	if err := s.ready(ctx); err != nil {
		return probe.Result{}, err
	}
	if !slices.Contains(s.tools, c.Tool) {
		return probe.Result{}, notAsked("the probe on %s has no %s: it is of another version", s.o.node, c.Tool)
	}
	var outcome *probe.Result
	var closed error
	seal := c.Sealed()
	err := s.ask(ctx, probe.Request{Type: probe.RequestCall, Call: &c}, func(ev probe.Event) {
		ev, err := seal.Open(ev)
		switch {
		case err != nil:
			closed = err
			return
		case ev.Type == probe.EventLog:
			say(s.o.ErrOut, "%s: %s", s.o.node, ev.Text)
		case ev.End != nil:
			outcome = ev.End.Outcome
		}
		if ofCall(ev) {
			each(ev)
		}
	})
	switch {
	case err != nil:
		return probe.Result{}, notAsked("%v", err)
	case outcome == nil:
		return probe.Result{}, notAsked("the probe on %s did not say how it went", s.o.node)
	case closed != nil:
		closed = notAsked("what %s wrote is not whole: %v", c.Tool, closed)
	}
	return *outcome, closed
}

// notAsked is a tool's answer that could not be had.
func notAsked(format string, args ...any) error {
	return outcomeError{exit(report.ExitIncomplete), fmt.Sprintf(format, args...)}
}

// ofCall tells whether an event can be part of the answer to a call, which is no place to
// answer a plan.
func ofCall(ev probe.Event) bool {
	switch ev.Type {
	case probe.EventStart:
		return ev.Start.Tool != ""
	case probe.EventEnd:
		return ev.End.Outcome != nil
	}
	return ev.Type != probe.EventResult
}
