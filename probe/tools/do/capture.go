package do

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/capture"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// capturing holds the arguments of capture.
type capturing tools.CaptureArgs

// capturePackets shows the node's packets.
func capturePackets(ctx context.Context, j *probe.Job, a *tools.CaptureArgs) probe.Result {
	return capturing(*a).run(ctx, j)
}

// findHosts finds the host's addresses. If it returns false, there are none, and the result contains the reason.
func (c *capturing) findHosts(ctx context.Context, j *probe.Job) (probe.Result, bool) {
	switch {
	case c.Host == "":
		return probe.Result{}, true
	case c.Addr.IsValid():
		c.Hosts = []netip.Addr{c.Addr}
	default:
		addrs, by, r := resolve(ctx, j, c.Host)
		if len(addrs) == 0 { // marked packets are recognised without an address
			return r, c.Mark != 0 && !c.Own
		}
		texts := make([]string, len(addrs))
		for i, a := range addrs {
			texts[i] = a.String()
		}
		c.say(j, "%s is %s, by %s", c.Host, strings.Join(texts, ", "), by)
		c.Hosts = addrs
	}
	if c.Own {
		c.Hosts = c.Hosts[:1]
		c.Addr = c.Hosts[0]
		// If a neighbour does not answer, that explains why no packet leaves.
		if roleOf, _, err := kernel.RouteOf(kernel.Packet{To: c.Addr}); err == nil && len(roleOf.Hops) == 1 &&
			roleOf.Hops[0].Gateway.IsValid() {
			c.Hosts = append(c.Hosts, roleOf.Hops[0].Gateway)
		}
	}
	return probe.Result{}, true
}

// say writes a line for the user, unless the output is for a capture.Reader.
func (c *capturing) say(j *probe.Job, format string, args ...any) {
	if !c.Frames {
		j.Say(format, args...)
	}
}

// settling is the time for which packets may still be in transit after everything has been answered.
const settling = 300 * time.Millisecond

func (c capturing) run(ctx context.Context, j *probe.Job) probe.Result {
	if r, ok := c.findHosts(ctx, j); !ok {
		return r
	}
	socket, err := capture.Open(c.Options)
	if err != nil {
		return unread(err)
	}
	defer socket.Close()
	limited, cancel := context.WithTimeout(ctx, c.Limit)
	defer cancel()
	show, err := c.shower(j, socket)
	if err != nil {
		return probe.Failed(err)
	}
	var answer probe.Result
	answered := probe.Async(func() error {
		if !c.Own {
			return nil
		}
		if answer = c.send(limited); limited.Err() == nil {
			time.AfterFunc(settling, cancel)
		}
		return nil
	})
	seen, err := c.read(limited, socket, show)
	cancel()
	if err = errors.Join(err, <-answered); err != nil {
		return probe.Failed(err)
	}
	r := c.outcome(seen, answer)
	if r.Status == probe.OK { // otherwise, the caller reports it
		c.say(j, "%s", r.Saw)
	}
	return r
}

// shower returns the function that shows packets, either as text or for a capture.Reader.
func (c capturing) shower(j *probe.Job, socket *capture.Capture) (func(capture.Packet) error, error) {
	if c.Frames {
		w, err := capture.NewWriter(j.Out, socket.VXLAN())
		if err != nil {
			return nil, err
		}
		return w.Packet, nil
	}
	return func(p capture.Packet) error {
		j.Say("%s", capture.Line(p, socket.VXLAN()))
		return nil
	}, nil
}

// read shows packets until ctx ends or it reaches the limit. It reads packets while it shows earlier ones, because
// the kernel does not wait.
func (c capturing) read(ctx context.Context, socket *capture.Capture, show func(capture.Packet) error) (*tally, error) {
	var failed, uncounted error
	var dropped int
	packets := make(chan capture.Packet, c.Packets)
	ended := probe.Async(func() error {
		defer close(packets)
		for range c.Packets {
			p, err := socket.Next(ctx)
			if err != nil {
				if ctx.Err() == nil {
					failed = err
				}
				break
			}
			packets <- p
		}
		dropped, uncounted = socket.Dropped()
		return nil
	})
	seen := &tally{}
	for p := range packets {
		seen.add(p)
		if err := show(p); err != nil {
			return nil, err // the session is closed
		}
	}
	seen.dropped = dropped
	switch crash := <-ended; {
	case crash != nil:
		return nil, crash
	case errors.Is(failed, capture.ErrFull):
		seen.ended = failed.Error()
	case failed != nil:
		return nil, failed
	case uncounted != nil:
		return nil, uncounted
	case seen.all == c.Packets:
		seen.ended = "the limit of --packets"
	}
	return seen, nil
}
