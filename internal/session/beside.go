package session

import (
	"context"
	"errors"
	"time"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// traceNode is a probe that may load programs into the kernel. One in a pod of its own has no right to: for as long as
// the call lasts there is another one that has, and only that. By the other access methods the one that is there has
// it, or says itself what it lacks.
func (c *Session) traceNode(ctx context.Context, what probe.Call) (s *nodeSession, leave func() error, err error) {
	at := c.at
	if err := at.ready(ctx); err != nil { // the access method it then has decides
		return nil, nil, err
	}
	if !injector.AccessOf(at.method).Pods || at.opts.Privileged {
		return at, func() error { return nil }, nil
	}
	own := at.beside(ctx)
	own.ForTool = true
	at.client.Progress("drops --trace takes a pod of its own on %s, with the capabilities BPF and PERFMON, until it ends", own.Node)
	second := &nodeSession{needed: tools.TraceCapabilities(what), checks: []string{"drops --trace"}}
	s, came, err := at.placeBeside(ctx, own, second)
	switch {
	case err != nil:
		return nil, nil, err
	case s.session == nil:
		return nil, nil, toolError("%s", came)
	}
	return s, s.leave, nil
}

// beside are the options of a second probe on the node, for as long as a command lasts.
func (s *nodeSession) beside(ctx context.Context) examine.Options {
	own := s.opts
	own.Via = injector.MethodPod
	if injector.AccessOf(s.method).Stays { // no other pod could be made
		own.Via = s.method
	}
	if end, ok := ctx.Deadline(); ok {
		own.Timeout = max(time.Second, min(own.Timeout, time.Until(end).Round(time.Second)))
	}
	return own
}

// placeBeside puts a second probe, which may do what the one on the node may not, beside that; where none could be put
// there, came is why.
func (s *nodeSession) placeBeside(ctx context.Context, own examine.Options, second *nodeSession) (
	placed *nodeSession, came string, err error) {
	_, snap, err := s.Snapshot(ctx)
	if err != nil {
		return nil, "", err
	}
	came = "no second probe was put on the node"
	sink := report.SinkFunc(func(ev probe.Event) error {
		if ev.Result != nil {
			came = ev.Result.Saw
		}
		return nil
	})
	own.InSession = true
	run, err := examine.New(s.client, own, sink)
	if err != nil {
		return nil, "", err
	}
	own.RootShell, own.ForTool = false, false // it may answer checks later
	second.client, second.opts, second.reader, second.snap, second.sink = s.client, own, s.reader, snap, sink
	if err := second.place(ctx, run, snap); err != nil {
		return nil, "", errors.Join(err, second.leave())
	}
	return second, came, nil
}
