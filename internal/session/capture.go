package session

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/capture"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// CaptureOptions say what is captured on which nodes.
type CaptureOptions struct {
	Run  examine.Options // Node is where it is captured, and by --own sent from
	Peer string          // another node where the same is captured, "" = none
	Pod  string          // of Node, in whose network it is; "" = in the node's own
	Args []string        // of the tool
}

// Captured is a packet, whose Interface has the name of the node before it.
type Captured struct {
	capture.Packet
	Node  string
	Line  string // the same in words
	Clock string // how the node's clock, by which its time is, differs from this machine's
}

// CaptureSink takes what is captured, from one goroutine at a time.
type CaptureSink interface {
	// Packet takes one.
	Packet(p Captured) error
	// End says how many packets a node is known not to have shown.
	End(node string, dropped int) error
}

// captures is a capture on one node or on two.
type captures struct {
	client  *examine.Client
	opts    CaptureOptions
	wanted  *tools.CaptureArgs
	mu      sync.Mutex // of what is written
	sink    CaptureSink
	begin   func()
	written error // the first error of writing
}

// Capture captures packets on a node, or on two at once, and gives them to a sink; begin is called before the first.
// The result is the exit code of what it came to, as a ui.Exit, which has been said. The context is expected to end
// with the time of the whole run (examine.Options.Deadline).
func Capture(ctx context.Context, client *examine.Client, o CaptureOptions, begin func(), sink CaptureSink) error {
	c := &captures{client: client, opts: o, begin: begin, sink: sink}
	var err error
	if c.wanted, err = tools.ParseCapture(o.Args); err != nil {
		return ui.BadUsage("%w", err)
	}
	err = c.do(ctx)
	over, late := errors.AsType[examine.TimeoutError](context.Cause(ctx))
	said, unasked := errors.AsType[outcomeError](err)
	switch {
	case unasked: // of two nodes perhaps
		client.Note("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		return said.exit
	case late && !errors.As(err, new(ui.Exit)):
		return over
	}
	return err
}

func (c *captures) do(ctx context.Context) error {
	ends := []*captureEnd{{captures: c, node: c.opts.Run.Node, pod: c.opts.Pod, args: c.opts.Args}}
	if c.wanted.Own {
		ends[0].args = append(slices.Clone(c.opts.Args), "--mark", c.wanted.Mark.String())
	}
	if c.opts.Peer != "" {
		ends = append(ends, &captureEnd{captures: c, node: c.opts.Peer, args: c.peerArgs()})
	}
	defer func() {
		var nodes []*nodeSession
		for _, e := range ends {
			if e.at != nil {
				nodes = append(nodes, e.at)
			}
		}
		if err := leaveAll(nodes); err != nil {
			c.client.Note("%v", err)
		}
	}()
	errs := make([]error, len(ends))
	var all probe.Workers
	for i, e := range ends {
		all.Go(func() { errs[i] = e.place(ctx) })
	}
	all.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	same := func(a, b error) bool { return a.Error() == b.Error() } // as where the API is away
	if errs = slices.CompactFunc(errs, same); len(errs) > 0 {
		return errors.Join(errs...)
	}
	c.begin()
	if err := c.both(ctx, ends); err != nil {
		return err
	}
	return c.conclude(ends)
}

// peerArgs are what the other node captures: the same, or what this one sends, for as long as this one takes.
func (c *captures) peerArgs() []string {
	out := slices.DeleteFunc(slices.Clone(c.opts.Args), func(arg string) bool { return arg == "--own" })
	if c.wanted.Own {
		longer := min(c.wanted.Limit+peerLonger, longest)
		out = append(out, "--mark", c.wanted.Mark.String(), "--seconds", strconv.Itoa(int(longer.Seconds())))
	}
	return out
}

const (
	peerLonger = 20 * time.Second // for the connections to both nodes
	longest    = 5 * time.Minute
	settling   = 500 * time.Millisecond // for packets that are under way to the other node
)

// both has the nodes capture, the other one first: it is ready when this one sends.
func (c *captures) both(ctx context.Context, ends []*captureEnd) error {
	if len(ends) == 1 {
		ends[0].capture(ctx)
		return ends[0].failed(ctx)
	}
	near, far := ends[0], ends[1]
	until, stop := context.WithCancel(ctx)
	defer stop()
	began := make(chan struct{})
	far.began = func() { close(began) }
	ended := probe.Async(func() error { far.capture(until); return nil })
	select {
	case <-began:
	case crash := <-ended:
		if err := errors.Join(crash, far.failed(ctx)); err != nil {
			return err
		}
		return toolError("%s: %s; nothing was captured on %s", far.node, far.outcome.Saw, near.node)
	}
	near.capture(ctx)
	if err := near.failed(ctx); err != nil {
		stop()
		return errors.Join(err, <-ended)
	}
	if c.wanted.Own {
		time.AfterFunc(settling, stop)
	}
	if crash := <-ended; crash != nil {
		return crash
	}
	return far.failed(ctx)
}

// conclude says what the nodes came to.
func (c *captures) conclude(ends []*captureEnd) error {
	worst := report.ExitHealthy
	for _, e := range ends {
		dropped, _ := e.outcome.Facts.Num(tools.FactDropped)
		if err := c.sink.End(e.node, max(0, int(dropped))); err != nil {
			return err
		}
		c.client.Note("%s: %s", e.node, e.outcome.Saw)
		switch e.outcome.Status {
		case probe.Fail:
			worst = examine.WorseExit(worst, report.ExitFault)
		case probe.OK, probe.Info, probe.Warn:
		default:
			worst = examine.WorseExit(worst, report.ExitIncomplete)
		}
	}
	if worst != report.ExitHealthy {
		return ui.Exit(worst)
	}
	return nil
}
