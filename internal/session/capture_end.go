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
	began     func()   // nil = nobody waits for it

	at      *nodeSession // nil = no probe is there yet
	from    *probe.Target
	clock   string
	outcome probe.Result
	err     error
}

// place puts a probe on the node that may capture and nothing else.
func (e *captureEnd) place(ctx context.Context) error {
	opts := e.opts.Run
	opts.Node, opts.ForTool = e.node, true
	s, err := newNodeSession(e.client, opts)
	if err != nil {
		return err
	}
	e.node = s.opts.Node                                                   // by --via local nobody has named it
	s.checks, s.needed = []string{tools.Capture.Name}, []string{"NET_RAW"} // the first is for auditors
	if e.wanted.Payload {
		s.checks = []string{tools.Capture.Name + " --payload"}
	}
	if e.pod != "" {
		s.needed = append(s.needed, "SYS_ADMIN", "SYS_PTRACE") // to enter its network
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
		err = toolError("no probe could be put on %s: %s", e.node, strings.Join(why, "; "))
	}
	return err
}

// podOn is the pod in whose network is captured.
func podOn(ctx context.Context, reader *cluster.Client, name, node string) (*probe.Target, error) {
	if reader == nil {
		return nil, errors.New("which pods run here is not known: no API was asked")
	}
	pods, err := reader.Running(ctx, node)
	if err != nil {
		return nil, err
	}
	pod, err := podNamed(pods, name, node)
	return &pod, err
}

// capture has the node capture until it has ended, or ctx has.
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
	asked := time.Now()
	what := probe.Call{Tool: tools.Capture.Name, Args: append(slices.Clone(e.args), "--frames"), From: e.from}
	var odd error
	e.outcome, e.err = e.at.call(ctx, what, func(ev probe.Event) {
		switch {
		case ev.Start != nil:
			e.clock = clockOf(e.node, ev.Start.Time, asked, time.Now())
		case ev.Type == probe.EventOut && odd == nil:
			if _, odd = reader.Write(bytesOf(ev)); odd != nil {
				end()
			}
		}
	})
	if odd == nil && e.err == nil && (begun || e.outcome.Status == probe.OK) { // else it says why it did not begin
		odd = reader.End()
	}
	if odd != nil {
		e.err = toolError("what %s sends is not taken: %v", e.node, odd)
	}
}

// packet gives one on.
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

// failed is why the node did not do what it was asked, nil = it did.
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

// clockOf is how a node's clock, which said so much when it was asked, differs from this machine's: it was read between
// the question and its answer.
func clockOf(node string, said, asked, answered time.Time) string {
	if said.IsZero() {
		return "the clock of " + node + " is not known; times are its own"
	}
	margin := answered.Sub(asked) / 2
	ahead := said.Sub(asked.Add(margin))
	word := "ahead of"
	if ahead < 0 {
		word, ahead = "behind", -ahead
	}
	return fmt.Sprintf("the clock of %s was %v %s that of the machine that asked, give or take %v; times are its own",
		node, ahead.Round(time.Millisecond), word, margin.Round(time.Millisecond)+time.Millisecond)
}
