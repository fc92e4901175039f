package session

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// ready makes sure that the node has a probe. If the last probe is lost, it places a new one.
func (s *nodeSession) ready(ctx context.Context) error {
	lost := s.lost || s.session != nil
	if s.lost || s.session != nil && s.session.Gone() != nil {
		_, snap, err := s.Snapshot(ctx)
		if err != nil {
			return fmt.Errorf("the probe on %s is gone, and a new one cannot be placed: %w", s.opts.Node, err)
		}
		// Use a new ID, because the container or pod of the lost probe may still be terminating.
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
		s.lost = lost // the next command places a new probe
		return context.Cause(ctx)
	case s.session == nil:
		return notRunError("there is no probe on %s: 'node %s' tries again, and shows why", s.opts.Node, s.opts.Node)
	}
	return nil
}

// call runs a tool on the node and returns the tool's result. It passes the output to each, piece
// by piece.
func (s *nodeSession) call(ctx context.Context, c probe.Call, each func(probe.Event)) (probe.Result, error) {
	if err := s.ready(ctx); err != nil {
		return probe.Result{}, err
	}
	if !slices.Contains(s.tools, c.Tool) {
		return probe.Result{}, notRunError("the probe on %s does not have %s: its version differs", s.opts.Node, c.Tool)
	}
	c.Hosts = s.hostsIn(ctx, c.Args)
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
		return probe.Result{}, notRunError("%v", err)
	case outcome == nil:
		return probe.Result{}, notRunError("the probe on %s returned no result", s.opts.Node)
	case closed != nil:
		closed = notRunError("the output of %s is incomplete: %v", c.Tool, closed)
	}
	return *outcome, closed
}

// hostsIn returns the InternalIPs of nodes in arguments (NODE or NODE:PORT), and the addresses of pods (NAMESPACE/NAME,
// with or without a port). It can resolve the pods that a run targets, and this node's pods.
func (s *nodeSession) hostsIn(ctx context.Context, args []string) map[string][]netip.Addr {
	if s.snap == nil {
		return nil
	}
	out := map[string][]netip.Addr{}
	for _, arg := range args {
		if host, _, err := net.SplitHostPort(arg); err == nil {
			arg = host
		}
		if strings.Contains(arg, "/") {
			out[arg] = s.podAddrs(ctx, arg)
			continue
		}
		for _, n := range s.snap.Nodes {
			if n.Name == arg {
				out[arg] = cluster.InternalIPs(&n)
			}
		}
	}
	return out
}

// podAddrs returns the addresses of a pod, if known.
func (s *nodeSession) podAddrs(ctx context.Context, name string) []netip.Addr {
	var out []netip.Addr
	targets, _ := cluster.Targets(s.snap) // without the targets that could not be listed
	for _, t := range targets {
		if (t.Kind == probe.KindPod || t.Kind == probe.KindLocal) && t.Name == name {
			out = append(out, t.Addr)
		}
	}
	if len(out) > 0 || s.reader == nil {
		return out
	}
	pods, err := s.reader.Running(ctx, s.opts.Node)
	if err != nil {
		return nil
	}
	for _, p := range pods {
		for _, ip := range p.Status.PodIPs {
			if a, err := netip.ParseAddr(ip.IP); err == nil && p.Namespace+"/"+p.Name == name {
				out = append(out, a)
			}
		}
	}
	return out
}

// notRunError returns the error for a tool that could not run.
func notRunError(format string, args ...any) error {
	return outcomeError{exit: ui.Exit(report.ExitIncomplete), saw: fmt.Sprintf(format, args...)}
}

// ofCall reports whether an event can be part of the answer to a call. Results of checks
// cannot, because they answer plans.
func ofCall(ev probe.Event) bool {
	switch ev.Type {
	case probe.EventStart:
		return ev.Start.Tool != ""
	case probe.EventEnd:
		return ev.End.Outcome != nil
	}
	return ev.Type != probe.EventResult
}
