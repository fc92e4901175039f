package session

import (
	"context"

	"github.com/calico-probe/calico-probe/injector"
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
		return nil, nil, notAsked("%s", came)
	}
	return s, s.leave, nil
}
