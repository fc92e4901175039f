package drops

import (
	"cmp"
	"context"
	"net/netip"
	"time"

	"github.com/calico-probe/calico-probe/probe/kernel"
)

// Question is what is to be found out: where packets to a target end.
type Question struct {
	From  Space
	Pod   netip.Addr // of the pod that is sent from, invalid = the node itself
	To    netip.Addr
	Shape Shape
	// Fine is another target that answers pings from there, invalid where none does.
	Fine netip.Addr
	// Count are the namespaces in which is counted: the node's first, then those of pods on the way.
	Count []Space
}

// Found is the answer.
type Found struct {
	Packets, Lost int
	Answer        string  // what came instead of answers, "" = nothing
	Deaths        []Death // of one place each, what tells the most first
	// Device is the interface by which they leave the node, "" where that is not known or they do not leave it.
	Device string
	// Left tells whether it sent at least as many packets while they were sent, which may have been those of others.
	Left bool
	// Few tells that less than half of a burst was lost: so few are not looked for among what others lose.
	Few bool
	// Uncounted are rules that drop and have no counter.
	Uncounted int
	// Unread says what could not be read, nil = nothing.
	Unread error
}

// Search sends bursts and counts. The error says that nothing could be sent, or that there was no time.
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
			break // nothing is to be confirmed
		}
		sent, err := during(ctx, q, q.To, packets)
		if err != nil {
			return out, err
		}
		after, err := Count(q.Count)
		out.unread(err)
		last, out.Answer = sent, cmp.Or(sent.Answer, out.Answer) // routers do not answer each packet
		out.Packets, out.Lost = out.Packets+sent.Packets, out.Lost+sent.Lost
		out.Left = out.Left && after.sentBy(before, out.Device) >= uint64(sent.Packets)
		w := window{Sent: sent.Packets, Lost: sent.Lost, Grew: after.Since(before)}
		for k, n := range w.Grew {
			total[k] += int(n)
		}
		if before = after; sent.Lost == 0 { // it answers now
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
	out.Deaths = rank(append(out.Deaths, kernelSays(q, routeOf(q), last)...))
	out.Uncounted = before.Uncounted()
	return out, nil
}

// unread notes what could not be read, once: it is tried again with each burst.
func (f *Found) unread(err error) {
	if f.Unread == nil {
		f.Unread = err
	}
}

// pause is a window in which nothing of ours is lost. Where the target that answered does so no more, it is left alone
// from then on, and the pause is repeated.
func (q *Question) pause(ctx context.Context, before Counts, packets int) (map[Key]uint64, Counts, error) {
	for {
		sent, err := during(ctx, *q, q.Fine, packets)
		if err != nil {
			return nil, before, err
		}
		after, _ := Count(q.Count) // what cannot be read is told of the windows with bursts
		if sent.Lost == 0 {
			return after.Since(before), after, nil
		}
		q.Fine, before = netip.Addr{}, after
	}
}

// during sends a burst, or nothing where there is nobody to send to, and takes its time.
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

// sentBy is how many packets an interface of the node sent since an earlier moment.
func (c Counts) sentBy(before Counts, device string) uint64 {
	k := Key{Node, kernel.TallyLink, device, "tx_packets"}
	return c.n[k] - min(before.n[k], c.n[k])
}
