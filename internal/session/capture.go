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

// CaptureOptions configure a capture.
type CaptureOptions struct {
	Run  examine.Options // Node is the node on which to capture; --own sends from it
	Peer string          // another node on which to capture; "" = none
	Pod  string          // a pod on Node in whose network to capture; "" = the node's own network
	Args []string        // arguments of the tool
}

// Captured is a packet. Its Interface has the node's name as a prefix.
type Captured struct {
	capture.Packet
	Node  string
	Line  string // the packet as text
	Clock string // the difference between this machine's clock and the node's clock, which stamped the packet
}

// CaptureSink receives packets. Only one goroutine calls it at a time.
type CaptureSink interface {
	// Packet receives one packet.
	Packet(p Captured) error
	// End receives the known number of packets that a node dropped.
	End(node string, dropped int) error
}

// captures is a capture on one or two nodes.
type captures struct {
	client  *examine.Client
	opts    CaptureOptions
	wanted  *tools.CaptureArgs
	mu      sync.Mutex // guards the output
	sink    CaptureSink
	begin   func()
	written error // the first write error
}

// Capture captures packets on one or two nodes, and passes them to a sink. It calls begin before the first packet. It
// prints everything and returns the exit code as a ui.Exit. The context should end with the limit of the whole run
// (examine.Options.Deadline).
func Capture(ctx context.Context, client *examine.Client, o CaptureOptions, begin func(), sink CaptureSink) error {
	c := &captures{client: client, opts: o, begin: begin, sink: sink}
	var err error
	if c.wanted, err = tools.ParseCapture(o.Args); err != nil {
		return ui.BadUsage("%w", err)
	}
	err = c.do(ctx)
	over, late := errors.AsType[examine.TimeoutError](context.Cause(ctx))
	outcome, failed := errors.AsType[outcomeError](err)
	switch {
	case failed: // possibly one of two nodes
		client.Note("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		return outcome.exit
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
	same := func(a, b error) bool { return a.Error() == b.Error() } // for example if the API is unreachable
	if errs = slices.CompactFunc(errs, same); len(errs) > 0 {
		return errors.Join(errs...)
	}
	c.begin()
	if err := c.both(ctx, ends); err != nil {
		return err
	}
	return c.conclude(ends)
}

// peerArgs returns the other node's arguments: the same arguments, or a filter for this node's packets with this
// capture's duration.
func (c *captures) peerArgs() []string {
	out := slices.DeleteFunc(slices.Clone(c.opts.Args), func(arg string) bool { return arg == "--own" })
	if c.wanted.Own {
		longer := min(c.wanted.Limit+peerLonger, longest)
		out = append(out, "--mark", c.wanted.Mark.String(), "--seconds", strconv.Itoa(int(longer.Seconds())))
	}
	return out
}

const (
	peerLonger = 20 * time.Second // for connecting to both nodes
	longest    = 5 * time.Minute
	settling   = 500 * time.Millisecond // for packets in flight to the other node
)

// both captures on both nodes. The other node starts first, because it must be ready when this node sends.
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
		return notRunError("%s: %s; nothing was captured on %s", far.node, far.outcome.Saw, near.node)
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

// conclude reports the outcome of each node.
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
