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

// traceNode returns a probe that may load programs into the kernel. A probe in a dedicated pod does not have this
// right, so a second pod with exactly this right exists during the call. With other access methods, the existing probe
// has the right, or reports which right is missing.
func (c *Session) traceNode(ctx context.Context, what probe.Call) (s *nodeSession, leave func() error, err error) {
	at := c.at
	if err := at.ready(ctx); err != nil { // this decides the access method
		return nil, nil, err
	}
	if !injector.AccessOf(at.method).Pods || at.opts.Privileged {
		return at, func() error { return nil }, nil
	}
	own := at.beside(ctx)
	own.ForTool = true
	at.client.Progress("drops --trace uses a separate pod on %s with the capabilities BPF and PERFMON until it ends", own.Node)
	second := &nodeSession{needed: tools.TraceCapabilities(what), checks: []string{"drops --trace"}}
	s, came, err := at.placeBeside(ctx, own, second)
	switch {
	case err != nil:
		return nil, nil, err
	case s.session == nil:
		return nil, nil, notRunError("%s", came)
	}
	return s, s.leave, nil
}

// beside returns the options of a second probe on the node, for the duration of a command.
func (s *nodeSession) beside(ctx context.Context) examine.Options {
	own := s.opts
	own.Via = injector.MethodPod
	if injector.AccessOf(s.method).Stays { // this method cannot create another pod
		own.Via = s.method
	}
	if end, ok := ctx.Deadline(); ok {
		own.Timeout = max(time.Second, min(own.Timeout, time.Until(end).Round(time.Second)))
	}
	return own
}

// placeBeside places a second probe with other rights on the node. If that fails, came is the reason.
func (s *nodeSession) placeBeside(ctx context.Context, own examine.Options, second *nodeSession) (
	placed *nodeSession, came string, err error) {
	_, snap, err := s.Snapshot(ctx)
	if err != nil {
		return nil, "", err
	}
	came = "no second probe was placed on the node"
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
	own.RootShell, own.ForTool = false, false // it may run checks later
	second.client, second.opts, second.reader, second.snap, second.sink = s.client, own, s.reader, snap, sink
	if err := second.place(ctx, run, snap); err != nil {
		return nil, "", errors.Join(err, second.leave())
	}
	return second, came, nil
}
