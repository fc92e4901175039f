package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/capture"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// captureEnd is a capture on one node.
type captureEnd struct {
	*captures
	node, pod string
	args      []string // of the tool
	began     func()   // nil = nothing waits for the start

	at      *nodeSession // nil = no probe yet
	from    *probe.Target
	clock   string
	outcome probe.Result
	err     error
}

// place places a probe that may only capture on the node.
func (e *captureEnd) place(ctx context.Context) error {
	opts := e.opts.Run
	opts.Node, opts.ForTool = e.node, true
	s, err := newNodeSession(e.client, opts)
	if err != nil {
		return err
	}
	e.node = s.opts.Node                                                   // --via local takes no name
	s.checks, s.needed = []string{tools.Capture.Name}, []string{"NET_RAW"} // checks: for auditors
	if e.wanted.Payload {
		s.checks = []string{tools.Capture.Name + " --payload"}
	}
	if e.pod != "" {
		s.needed = append(s.needed, "SYS_ADMIN", "SYS_PTRACE") // to enter the pod's network
	}
	reader, snap, err := s.Snapshot(ctx)
	if err != nil {
		return err
	}
	if e.pod != "" {
		if e.from, err = podOn(ctx, reader, e.pod, e.node); err != nil {
			return usage(err)
		}
	}
	var why []string
	s.sink = report.SinkFunc(func(ev probe.Event) error {
		if r := ev.Result; r != nil && (r.Status == probe.Unknown || r.Status == probe.Fail) {
			why = append(why, r.Target+": "+r.Saw)
		}
		return nil
	})
	run, err := examine.New(s.client, s.asking(nil), s.sink)
	if err != nil {
		return err
	}
	err = s.place(ctx, run, snap)
	switch {
	case s.session != nil:
		e.at = s
	case err == nil && ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil:
		err = notRunError("cannot place a probe on %s: %s", e.node, strings.Join(why, "; "))
	}
	return err
}

// podOn returns the pod in whose network to capture.
func podOn(ctx context.Context, reader *cluster.Client, name, node string) (*probe.Target, error) {
	if reader == nil {
		return nil, errors.New("the pods on this node are unknown: no API is in use")
	}
	pods, err := reader.Running(ctx, node)
	if err != nil {
		return nil, err
	}
	pod, err := podNamed(pods, name, node)
	return &pod, err
}

// capture captures on the node until it ends or ctx ends.
func (e *captureEnd) capture(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	begun := false
	reader := &capture.Reader{Packets: e.wanted.Packets, Payload: e.wanted.Payload, Begun: func() {
		if begun = true; e.began != nil {
			e.began()
		}
	}}
	reader.Packet = func(p capture.Packet) error { return e.packet(reader, p) }
	sent := time.Now()
	what := probe.Call{Tool: tools.Capture.Name, Args: append(slices.Clone(e.args), "--frames"), From: e.from}
	var odd error
	e.outcome, e.err = e.at.call(ctx, what, func(ev probe.Event) {
		switch {
		case ev.Start != nil:
			e.clock = clockOf(e.node, ev.Start.Time, sent, time.Now())
		case ev.Type == probe.EventOut && odd == nil:
			if _, odd = reader.Write(bytesOf(ev)); odd != nil {
				end()
			}
		}
	})
	if odd == nil && e.err == nil && (begun || e.outcome.Status == probe.OK) { // otherwise the outcome has the reason
		odd = reader.End()
	}
	if odd != nil {
		e.err = notRunError("invalid capture from %s: %v", e.node, odd)
	}
}

// packet passes on one packet.
func (e *captureEnd) packet(reader *capture.Reader, p capture.Packet) error {
	place := e.node + " "
	if e.from != nil {
		place += e.from.Name + " "
	}
	p.Interface = place + p.Interface
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.written == nil {
		e.written = e.sink.Packet(Captured{Packet: p, Node: e.node, Line: reader.Line(p), Clock: e.clock})
	}
	return e.written
}

// failed returns why the capture failed, or nil.
func (e *captureEnd) failed(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.written != nil:
		return e.written
	case e.err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return e.err
}

// clockOf describes the difference between a node's clock and this machine's clock. said is the time that the node read
// between the request (sent) and the answer (answered).
func clockOf(node string, said, sent, answered time.Time) string {
	if said.IsZero() {
		return "clock of " + node + " unknown; times are those of the node's clock"
	}
	margin := answered.Sub(sent) / 2
	ahead := said.Sub(sent.Add(margin))
	word := "ahead of"
	if ahead < 0 {
		word, ahead = "behind", -ahead
	}
	return fmt.Sprintf("the clock of %s was %v %s the client's, +/- %v; times are those of the node's clock",
		node, ahead.Round(time.Millisecond), word, margin.Round(time.Millisecond)+time.Millisecond)
}
