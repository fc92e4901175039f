package drops

import (
	"cmp"
	"context"
	"net/netip"
	"time"

	"github.com/calico-probe/calico-probe/probe/tally"
)

// Question is what a search must answer: where are packets to a target lost?
type Question struct {
	From  Space
	Pod   netip.Addr // address of the sending pod, invalid = the node itself
	To    netip.Addr
	Shape Shape
	// Fine is another target that answers pings from the sender. It is invalid without such a target.
	Fine netip.Addr
	// Count lists the namespaces in which to count: first the node's namespace, then those of pods on the path.
	Count []Space
}

// Found is the answer to a Question.
type Found struct {
	Packets, Lost int
	Answer        string  // what arrived instead of answers, "" = nothing
	Deaths        []Death // one place each, with the most specific first
	// Device is the node's outgoing interface. It is "" if the interface is unknown, or if the
	// packets do not leave the node.
	Device string
	// Left is true if Device sent at least as many packets during the search. Other senders may have sent them.
	Left bool
	// Few is true if less than half of a burst was lost. Such a small loss cannot be distinguished from losses
	// in other traffic.
	Few bool
	// Uncounted is the number of rules that drop packets but have no counter.
	Uncounted int
	// Unread is the error if some counters could not be read, or nil.
	Unread error
}

// Search sends bursts and counts the packets. It returns an error if it cannot send any packet, or on timeout.
func Search(ctx context.Context, q Question) (Found, error) {
	var out Found
	out.Device = routeOf(q).device
	out.Left = out.Device != ""
	before, err := Count(q.Count)
	out.Unread = err
	var windows []window
	var last Sent
	total := map[Key]int{}
	for i, packets := range bursts() {
		if i >= enough && len(match(windows)) == 0 {
			break // there is nothing to confirm
		}
		sent, err := during(ctx, q, q.To, packets)
		if err != nil {
			return out, err
		}
		after, err := Count(q.Count)
		out.unread(err)
		last, out.Answer = sent, cmp.Or(sent.Answer, out.Answer) // routers do not answer every packet
		out.Packets, out.Lost = out.Packets+sent.Packets, out.Lost+sent.Lost
		out.Left = out.Left && after.sentBy(before, out.Device) >= uint64(sent.Packets)
		w := window{Sent: sent.Packets, Lost: sent.Lost, Grew: after.Since(before)}
		for k, n := range w.Grew {
			total[k] += int(n)
		}
		if before = after; sent.Lost == 0 { // the target answers now
			return out, nil
		}
		if w.After, before, err = q.pause(ctx, before, packets); err != nil {
			return out, err
		}
		windows, out.Few = append(windows, w), out.Few || w.few()
	}
	for _, k := range match(windows) {
		out.Deaths = append(out.Deaths, before.death(k, total[k]))
	}
	out.Deaths = rank(append(out.Deaths, kernelEvidence(q, routeOf(q), last)...))
	out.Uncounted = before.Uncounted()
	return out, nil
}

// unread records a read error only once, because every burst repeats the read.
func (f *Found) unread(err error) {
	if f.Unread == nil {
		f.Unread = err
	}
}

// pause is a window in which none of our packets is lost. If the target that answers stops answering, pause removes
// it and repeats the window without it.
func (q *Question) pause(ctx context.Context, before Counts, packets int) (map[Key]uint64, Counts, error) {
	for {
		sent, err := during(ctx, *q, q.Fine, packets)
		if err != nil {
			return nil, before, err
		}
		after, _ := Count(q.Count) // windows with bursts report read errors
		if sent.Lost == 0 {
			return after.Since(before), after, nil
		}
		q.Fine, before = netip.Addr{}, after
	}
}

// during sends a burst, and takes as long as a window. Without a target, it sends nothing.
func during(ctx context.Context, q Question, to netip.Addr, packets int) (sent Sent, err error) {
	over := time.NewTimer(span)
	defer over.Stop()
	switch {
	case to == q.To:
		sent, err = burst(ctx, q.From, to, q.Shape, packets)
	case to.IsValid():
		sent, err = burst(ctx, q.From, to, Shape{}, packets)
	}
	if err != nil {
		return sent, err
	}
	select {
	case <-ctx.Done():
		return sent, context.Cause(ctx)
	case <-over.C:
		return sent, nil
	}
}

// sentBy returns the number of packets that a node's interface has sent since an earlier moment.
func (c Counts) sentBy(before Counts, device string) uint64 {
	k := Key{Node, tally.Link, device, "tx_packets"}
	return c.n[k] - min(before.n[k], c.n[k])
}
