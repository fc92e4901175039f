package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/trace"
	"github.com/calico-probe/calico-probe/probe"
)

// nodeSession is one node of a session: the probe that stays there and all it has answered.
// The runs of the session on that node ask it.
type nodeSession struct {
	client *examine.Client
	opts   examine.Options // of a run that asks this node everything
	sink   report.Sink     // of results that no command asked for: how the probe was put there
	checks []string        // what the probe has to be able to answer
	needed []string        // and the capabilities it takes for that
	// rights of the probe in place of needed, nil = none
	debugProfile *injector.DebugProfile

	reader *cluster.Client // nil = the API was not queried yet, or never is
	snap   *cluster.Snapshot
	ahead  <-chan readAhead // what is being read in the background; nil = nothing is

	session *injector.Session // nil = no probe is there
	method  string            // by which it is there
	tools   []string          // what it has
	lost    bool              // there was one, and it cannot be asked any more
	placed  int               // how many there were
	asked   int64             // the ID of the last request

	answers report.Latest
}

// newNodeSession is the session on a node before a probe is there.
func newNodeSession(client *examine.Client, opts examine.Options) (*nodeSession, error) {
	if err := opts.Complete(); err != nil {
		return nil, err
	}
	opts.InSession = true
	s := &nodeSession{client: client, opts: opts, answers: report.Latest{Node: opts.Node}}
	everything, err := examine.New(client, s.asking(nil), nil)
	if err != nil {
		return nil, err
	}
	s.checks, s.needed = everything.NodeChecks(), everything.Capabilities()
	return s, nil
}

// asking are the options of a run on the node that asks these checks, none = all of the profile.
func (s *nodeSession) asking(checks []string) examine.Options {
	opts := s.opts
	opts.Checks = checks
	return opts
}

// freshFor is how long what the API says is believed between two commands: a check asked
// again and again does not ask all of that anew, nor wait for it.
const freshFor = 10 * time.Second

// Snapshot is what the API says of the node, as of ten seconds ago at most. What is used in
// the second half of that time is read anew meanwhile, for the next command.
func (s *nodeSession) Snapshot(ctx context.Context) (*cluster.Client, *cluster.Snapshot, error) {
	if s.reader == nil { // not read yet, or --via local, which asks no API
		var err error
		s.reader, s.snap, err = s.client.Read(ctx, s.opts)
		return s.reader, s.snap, err
	}
	var read readAhead
	select {
	case read = <-s.ahead:
		s.ahead = nil
	default:
	}
	if s.old(freshFor) && s.ahead != nil {
		select {
		case read = <-s.ahead:
			s.ahead = nil
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
	if read.crash != nil { // said by the next command, because the user may have been typing
		s.client.Note("reading the API in the background %v", read.crash)
	}
	if read.snap != nil {
		s.snap = read.snap
	}
	if s.old(freshFor) {
		reading, end := trace.Span(ctx, "read the API")
		snap, err := s.reader.Read(reading, s.opts.Node)
		end()
		if err != nil {
			return nil, nil, examine.NoSuchNode(err)
		}
		s.snap = snap
	}
	if s.old(freshFor/2) && s.ahead == nil {
		client, node := s.reader, s.opts.Node
		read := func(ctx context.Context) (*cluster.Snapshot, error) { return client.Read(ctx, node) }
		s.ahead = readInBackground(ctx, read)
	}
	return s.reader, s.snap, nil
}

// readAhead is what reading the API in the background came to: nothing if it failed, because the command that needs it
// reads again and reports why it cannot.
type readAhead struct {
	snap  *cluster.Snapshot
	crash error
}

// aheadLimit bounds a read in the background. Within it the API is not tried a second time, which takes three times as
// long and prints a message, perhaps into what the user types.
const aheadLimit = 15 * time.Second

// readInBackground reads the API for a later command.
func readInBackground(ctx context.Context, read func(context.Context) (*cluster.Snapshot, error)) <-chan readAhead {
	ahead := make(chan readAhead, 1)
	probe.Detach(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), aheadLimit)
		defer cancel()
		snap, _ := read(ctx)
		ahead <- readAhead{snap: snap}
		return nil
	}, func(crash error) { ahead <- readAhead{crash: crash} })
	return ahead
}

// old tells whether what the API said is older than that.
func (s *nodeSession) old(than time.Duration) bool { return time.Since(s.snap.Read) > than }

// askNode asks the probe on the node what a run wants to know of it.
func (s *nodeSession) askNode(ctx context.Context, r *examine.Run, snap *cluster.Snapshot) error {
	if !r.EntersNode() {
		return nil
	}
	if err := s.place(ctx, r, snap); err != nil || s.session == nil {
		return err
	}
	ask := func(ctx context.Context, req probe.Request, each func(probe.Event) bool) error {
		return s.ask(ctx, req, func(ev probe.Event) { each(ev) })
	}
	whole, err := r.AskPlans(ctx, s.method, snap, ask, func() error { return nil })
	if unheard, is := errors.AsType[*examine.SilentProbeError](err); is {
		return r.Add(s.method, examine.Unanswered(unheard.Err))
	}
	if err != nil || !whole {
		return err
	}
	if ctx.Err() == nil && r.ProvesEncap(snap) {
		err := r.ProveEncap(ctx, s.session, snap)
		if ctx.Err() != nil { // its half of the proof is not waited for
			s.session.Abandon()
		}
		return err
	}
	return nil
}

// place puts a probe on the node when there is none, or none any more. Where no access method
// works the reasons are results of the run, and there is still none.
func (s *nodeSession) place(ctx context.Context, r *examine.Run, snap *cluster.Snapshot) error {
	if s.session != nil {
		gone := s.session.Gone()
		if gone == nil {
			return nil
		}
		s.client.Note("the probe on %s has gone (%v): putting another there", s.opts.Node, gone)
		if err := s.letGo(); err != nil {
			s.client.Note("%v", err)
		}
	} else if s.lost {
		s.client.Note("putting another probe on %s", s.opts.Node)
	}
	s.lost = false
	tries, err := r.Attempts(snap, func() bool { return true })
	if err != nil {
		return err
	}
	for i, m := range tries.Methods {
		tries.Methods[i].Open = s.outliving(m.Open)
	}
	return r.AskBy(ctx, tries, snap, func(p *injector.Placed) error {
		if unheard := s.greet(ctx, r, p); unheard != nil {
			return &examine.SilentProbeError{Err: unheard}
		}
		if err := r.ReportPlaced(p, snap); err != nil {
			return errors.Join(err, s.leave())
		}
		return nil
	})
}

// outliving makes the probe outlive the command that wanted it, and able to do what every
// command that follows may ask.
func (s *nodeSession) outliving(open injector.Open) injector.Open {
	return func(ctx context.Context, opts injector.Options) (*injector.Session, error) {
		opts.Needed, opts.Checks, opts.DebugProfile = s.needed, s.checks, s.debugProfile
		own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		opened := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
		session, err := open(own, opts)
		opened()
		return session, err
	}
}

// greet waits for the first word of a probe that was put on the node, which says what tools it has, and keeps the
// probe. The error says why no word came.
func (s *nodeSession) greet(ctx context.Context, r *examine.Run, p *injector.Placed) error {
	var tools []string
	plan := &probe.Plan{Run: r.ID, Node: r.Node, Way: p.Method}
	err := p.Session.Ask(ctx, probe.Request{Type: probe.RequestPlan, Plan: plan}, func(ev probe.Event) bool {
		if ev.Start != nil {
			tools = ev.Start.Tools
		}
		return true
	})
	if err != nil {
		return errors.Join(err, p.Session.Close())
	}
	s.session, s.method, s.tools = p.Session, p.Method, tools
	s.placed++
	return nil
}

// letGo leaves a probe that cannot be asked any more. The next command puts another there.
func (s *nodeSession) letGo() error {
	s.lost = true
	return s.leave()
}

// leave ends the probe, if there is one, and removes what was created for it.
func (s *nodeSession) leave() error {
	if s.session == nil {
		return nil
	}
	err := s.session.Close()
	s.session = nil
	if err != nil {
		return fmt.Errorf("%s: cleaning up: %w", s.opts.Node, err)
	}
	return nil
}

// leaveAll leaves every node at once: it takes as long as the slowest.
func leaveAll(nodes []*nodeSession) error {
	errs := make([]error, len(nodes))
	var all probe.Workers
	for i, s := range nodes {
		all.Go(func() { errs[i] = s.leave() })
	}
	all.Wait()
	return errors.Join(errs...)
}
