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

// nodeSession is one node in a session. It holds the node's probe and all answers from that probe. All of the session's
// runs on that node use it.
type nodeSession struct {
	client *examine.Client
	opts   examine.Options // options for a run of all checks on this node
	sink   report.Sink     // for results that do not belong to a command: how the probe was placed
	checks []string        // the checks that the probe must support
	needed []string        // the capabilities that it needs for them
	// the probe's rights, instead of needed; nil = none
	debugProfile *injector.DebugProfile

	reader *cluster.Client // nil = the API has not been read yet, or is not used
	snap   *cluster.Snapshot
	ahead  <-chan readAhead // a read in the background; nil = none

	session *injector.Session // nil = no probe
	method  string            // its access method
	tools   []string          // its tools
	lost    bool              // there was a probe, but it no longer accepts requests
	placed  int               // number of probes that were placed
	lastID  int64             // the ID of the last request

	answers report.Latest
}

// newNodeSession returns a node's session, without a probe.
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

// asking returns the options for a run with these checks. If there are none, it runs all checks in the profile.
func (s *nodeSession) asking(checks []string) examine.Options {
	opts := s.opts
	opts.Checks = checks
	return opts
}

// freshFor is the time for which commands may reuse the last API snapshot. Repeated checks then do not wait for a new
// snapshot.
const freshFor = 10 * time.Second

// Snapshot returns the node's state in the API, at most ten seconds old. In the second half of that time, it also
// starts to read a new snapshot for the next command.
func (s *nodeSession) Snapshot(ctx context.Context) (*cluster.Client, *cluster.Snapshot, error) {
	if s.reader == nil { // not read yet, or --via local, which has no API
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
	if read.crash != nil { // reported only now, because the user may have been typing
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

// readAhead is the result of a read in the background. A failed read has no result: the command that needs a result
// reads again, and reports the error.
type readAhead struct {
	snap  *cluster.Snapshot
	crash error
}

// aheadLimit is the time limit for a read in the background. It is too short for the client's first retry, because a
// retry takes three times as long and prints a message, possibly into the line that the user is typing.
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

// old reports whether the snapshot is older than the given duration.
func (s *nodeSession) old(than time.Duration) bool { return time.Since(s.snap.Read) > than }

// askNode runs the checks of a run on the node's probe.
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
		if ctx.Err() != nil { // do not wait for the baseline nodes' results
			s.session.Abandon()
		}
		return err
	}
	return nil
}

// place places a probe on the node if there is none or the last one was lost. If no access method works, the reasons
// become results of the run, and the node still has no probe.
func (s *nodeSession) place(ctx context.Context, r *examine.Run, snap *cluster.Snapshot) error {
	if s.session != nil {
		gone := s.session.Gone()
		if gone == nil {
			return nil
		}
		s.client.Note("lost the probe on %s (%v): placing another one", s.opts.Node, gone)
		if err := s.letGo(); err != nil {
			s.client.Note("%v", err)
		}
	} else if s.lost {
		s.client.Note("placing another probe on %s", s.opts.Node)
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

// outliving keeps a probe running after the command that placed it, and adds the rights for all later commands.
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

// greet waits for a new probe's first message, which lists its tools, and keeps the probe. The error is the reason why
// there was no message.
func (s *nodeSession) greet(ctx context.Context, r *examine.Run, p *injector.Placed) error {
	var tools []string
	plan := &probe.Plan{Run: r.ID, Node: r.Node, Method: p.Method}
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

// letGo drops a probe that no longer accepts requests. The next command places another probe.
func (s *nodeSession) letGo() error {
	s.lost = true
	return s.leave()
}

// leave stops the probe, if there is one, and removes the objects that were created for it.
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

// leaveAll leaves all nodes in parallel, so it takes only as long as the slowest node.
func leaveAll(nodes []*nodeSession) error {
	errs := make([]error, len(nodes))
	var all probe.Workers
	for i, s := range nodes {
		all.Go(func() { errs[i] = s.leave() })
	}
	all.Wait()
	return errors.Join(errs...)
}
