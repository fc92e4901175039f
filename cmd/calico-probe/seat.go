package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/shell"
)

// seat is one node of a session: the probe that stays there and all it has answered.
type seat struct {
	o       *runOptions // for this node; each run has a copy
	client  *cluster.Client
	snap    *cluster.Snapshot
	session *injector.Session // nil = no probe is there
	way     string
	tools   []string   // what that probe has
	run     report.Run // the latest answers
}

// freshFor is how long what the API says is believed between two commands: a check asked
// again and again does not ask all of that anew.
const freshFor = 10 * time.Second

// fresh is what the API says of the node, as of a moment ago.
func (s *seat) fresh(ctx context.Context) (*cluster.Client, *cluster.Snapshot, error) {
	if s.snap != nil && time.Since(s.snap.Read) < freshFor {
		return s.client, s.snap, nil
	}
	client, snap, err := s.o.read(ctx)
	if err == nil {
		s.client, s.snap = client, snap
	}
	return client, snap, err
}

// place has a probe on the node when there is none. Where no way works the reasons are
// results of o, and there is none still.
func (s *seat) place(ctx context.Context, o *runOptions, snap *cluster.Snapshot) error {
	if s.session != nil {
		return nil
	}
	steps, err := o.ladder()
	if err != nil {
		return err
	}
	for i := range steps { // the probe is to outlive the command that wanted it
		open := steps[i].open
		steps[i].open = func(ctx context.Context, opts injector.Options) (*injector.Session, error) {
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
			return nil, o.arrived(way, session, took, said)
		}
		err = errors.Join(err, session.Close())
		ev := unanswered(err)
		ev.Way = way
		if last || ctx.Err() != nil {
			return nil, o.emit(way, ev)
		}
		return &ev, nil
	}
	return o.climb(ctx, steps, snap, snap != nil && cluster.KubeletSilent(snap), func() bool { return true }, talk)
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
	case o.proves(snap):
		return o.prove(ctx, s.session, snap)
	}
	return nil
}

// stopLimit is how long what was stopped may take to end.
const stopLimit = 4 * time.Second

// ask sends a plan or a call and gives each event of the answer to each. When ctx ends
// the probe is told to stop, and stays. A probe that cannot be asked any more is let go.
func (s *seat) ask(ctx context.Context, request probe.Request, each func(probe.Event)) error {
	answered := make(chan struct{})
	defer close(answered)
	whole, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	stopped := context.AfterFunc(ctx, func() {
		if err := s.session.Stop(whole); err != nil {
			giveUp(err)
			return
		}
		select {
		case <-answered:
		case <-shell.Abandoned(ctx):
			giveUp(errors.New("nobody waits for the probe to stop"))
		case <-time.After(stopLimit):
			giveUp(fmt.Errorf("the probe does not stop within %v", stopLimit))
		}
	})
	defer stopped()
	err := answer(whole, s.session, request, func(ev probe.Event) bool {
		each(ev)
		return true
	})
	if err != nil {
		return errors.Join(err, s.leave())
	}
	return nil
}

// leave ends the probe, if there is one, and removes what was created for it.
func (s *seat) leave() error {
	if s.session == nil {
		return nil
	}
	err := s.session.Close()
	s.session = nil
	if err != nil {
		return fmt.Errorf("%s: cleaning up: %w; remove what is left with 'calico-probe clean --all'", s.o.node, err)
	}
	return nil
}

// call runs a tool on the node. The result is how it went; what it writes is given to
// each, piece by piece.
func (s *seat) call(ctx context.Context, c probe.Call, each func(probe.Event)) (probe.Result, error) {
	if !slices.Contains(s.tools, c.Tool) {
		return probe.Result{}, fmt.Errorf("the probe on %s has no %s: it is of another version", s.o.node, c.Tool)
	}
	var outcome *probe.Result
	err := s.ask(ctx, probe.Request{Type: probe.RequestCall, Call: &c}, func(ev probe.Event) {
		if ev.End != nil {
			outcome = ev.End.Outcome
		}
		each(ev)
	})
	switch {
	case err != nil:
		return probe.Result{}, err
	case outcome == nil:
		return probe.Result{}, errors.New("the probe did not say how it went")
	}
	return *outcome, nil
}
