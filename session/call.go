package session

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/examine"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/ui"
)

// ready has a probe on the node, a new one where the last is lost.
func (s *nodeSession) ready(ctx context.Context) error {
	lost := s.lost || s.session != nil
	if s.lost || s.session != nil && s.session.Gone() != nil {
		_, snap, err := s.Snapshot(ctx)
		if err != nil {
			return fmt.Errorf("the probe on %s has gone, and where to put another is not known: %w", s.opts.Node, err)
		}
		// It has an ID of its own: what the last one was in may still be ending.
		run, err := examine.New(s.client, s.asking(nil), s.sink)
		if err != nil {
			return err
		}
		if err := s.place(ctx, run, snap); err != nil {
			return err
		}
	}
	switch {
	case s.session == nil && ctx.Err() != nil:
		s.lost = lost // the next command puts one there
		return context.Cause(ctx)
	case s.session == nil:
		return notAsked("there is no probe on %s: 'node %s' says why, and tries again", s.opts.Node, s.opts.Node)
	}
	return nil
}

// call runs a tool on the node. The result is how it went; what it writes is given to
// each, piece by piece.
func (s *nodeSession) call(ctx context.Context, c probe.Call, each func(probe.Event)) (probe.Result, error) {
	if err := s.ready(ctx); err != nil {
		return probe.Result{}, err
	}
	if !slices.Contains(s.tools, c.Tool) {
		return probe.Result{}, notAsked("the probe on %s has no %s: it is of another version", s.opts.Node, c.Tool)
	}
	c.Hosts = s.hostsIn(c.Args)
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
			s.client.Note("%s: %s", s.opts.Node, ev.Text)
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
		return probe.Result{}, notAsked("the probe on %s did not say how it went", s.opts.Node)
	case closed != nil:
		closed = notAsked("what %s wrote is not whole: %v", c.Tool, closed)
	}
	return *outcome, closed
}

// hostsIn are the InternalIPs of the nodes that arguments name, as NODE or NODE:PORT.
func (s *nodeSession) hostsIn(args []string) map[string][]netip.Addr {
	if s.snap == nil {
		return nil
	}
	out := map[string][]netip.Addr{}
	for _, arg := range args {
		if host, _, err := net.SplitHostPort(arg); err == nil {
			arg = host
		}
		for _, n := range s.snap.Nodes {
			if n.Name == arg {
				out[arg] = cluster.InternalIPs(&n)
			}
		}
	}
	return out
}

// notAsked is a tool's answer that could not be had.
func notAsked(format string, args ...any) error {
	return outcomeError{ui.Exit(report.ExitIncomplete), fmt.Sprintf(format, args...)}
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
