package do

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/capture"
	"github.com/calico-probe/calico-probe/probe/icmp"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// connecting is the maximum time that a connection may take to open. The first segment is sent again after one second.
const connecting = 3 * time.Second

// send sends the marked packets. It returns the outcome, or "" if it was stopped.
func (c capturing) send(ctx context.Context) probe.Result {
	if c.Port != 0 {
		return c.connect(ctx)
	}
	got, err := icmp.Marked(ctx, c.Addr, uint64(c.Mark), icmp.Usual)
	var why string
	switch {
	case err != nil:
		return unread(fmt.Errorf("pinging %s: %w", c.Addr, err))
	case got.Cut && got.Received == 0:
		return probe.Result{}
	case got.Received == got.Sent:
		return probe.Found(probe.OK, "%s to %s, and all came back", several(got.Sent, "ping"), c.Addr)
	case got.Refusal != "":
		why = ": could not leave: " + node.Refusal(got.Refusal)
	case got.Bounced != "":
		why = ": " + got.Bounced
	}
	r := probe.Found(probe.OK, "%d of %s to %s came back%s", got.Received, several(got.Sent, "ping"), c.Addr, why)
	if got.Received == 0 {
		r.Status = probe.Fail
	}
	return r
}

func (c capturing) connect(ctx context.Context) probe.Result {
	to := netip.AddrPortFrom(c.Addr, c.Port)
	err := capture.Connect(ctx, to, c.Mark, connecting)
	reason := probe.Reason(err)
	switch {
	case err == nil:
		return probe.Found(probe.OK, "%s accepts connections", to)
	case ctx.Err() != nil:
		return probe.Result{}
	case reason == "timeout":
		return probe.Found(probe.Fail, "no connection to %s within %s", to, short(connecting))
	case reason == "refused":
		return probe.Found(probe.Fail, "%s refuses the connection", to)
	case reason != "error" && node.Refusal(reason) != "":
		return probe.Found(probe.Fail, "no connection to %s: %s", to, node.Refusal(reason))
	}
	return probe.Failed(err)
}

// tally counts the packets that were seen at each place.
type tally struct {
	all, discovery int
	places         []place
	dropped        int    // packets for which the kernel had no space
	ended          string // the reason why it ended early
}

// place is an interface. Places are ordered by the time when packets were first seen there, which
// shows the path through the node.
type place struct {
	name    string
	in, out int
}

func (t *tally) add(p capture.Packet) {
	if t.all++; p.Discovery {
		t.discovery++
		return
	}
	i := slices.IndexFunc(t.places, func(o place) bool { return o.name == p.Interface })
	if i < 0 {
		i, t.places = len(t.places), append(t.places, place{name: p.Interface})
	}
	if p.Direction == capture.Out {
		t.places[i].out++
	} else {
		t.places[i].in++
	}
}

// String lists where packets were seen, "" = nowhere.
func (t *tally) String() string {
	const most = 8
	var out []string
	for i, p := range t.places {
		if i == most {
			out = append(out, fmt.Sprintf("and %d more interfaces", len(t.places)-most))
			break
		}
		text := p.name
		if p.in > 0 {
			text += fmt.Sprintf(" in %d", p.in)
		}
		if p.out > 0 {
			text += fmt.Sprintf(" out %d", p.out)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// aside adds what is missing, what is not counted, and why the capture ended.
func (t *tally) aside() string {
	var out string
	if t.discovery > 0 {
		out += fmt.Sprintf("; %s of ARP or neighbour discovery", several(t.discovery, "packet"))
	}
	if t.dropped > 0 {
		out += fmt.Sprintf("; %s more the kernel had no room for", several(t.dropped, "packet"))
	}
	if t.ended != "" {
		out += "; " + t.ended
	}
	return out
}

// outcome returns the result. If the kernel had no space for some packets, the result does not
// claim that no packets were seen.
func (c capturing) outcome(t *tally, answer probe.Result) probe.Result {
	where, ours := t.String(), t.all-t.discovery
	on := "on any interface"
	if c.Interface != "" {
		on = "on " + c.Interface
	}
	r := probe.Found(probe.OK, "%s: %s", several(ours, "packet"), where)
	switch {
	case c.Own && answer.Status == "":
		r = probe.Found(probe.Unknown, "it ended before an answer could arrive; seen: %s", where)
		if where == "" {
			r.Saw = "it ended before an answer could arrive, and nothing was seen"
		}
	case c.Own && where != "":
		r = answer
		r.Saw += "; seen: " + where
	case c.Own:
		r = answer
		r.Saw += "; no packet of it was seen " + on
	case ours == 0 && c.Mark != 0:
		r = probe.Found(probe.Fail, "no marked packet was seen %s", on)
	case ours == 0:
		r = probe.Found(probe.OK, "no packet of %s was seen %s", c.what(), on)
	}
	if ours == 0 && t.dropped > 0 && r.Status != probe.Skip {
		r.Status = probe.Unknown
	}
	r.Saw += t.aside()
	return r.With(tools.FactDropped, t.dropped)
}

// what describes the captured packets.
func (c capturing) what() string {
	text := c.Host
	switch {
	case c.Host == "":
		text = fmt.Sprint("port ", c.Port)
	case c.Port != 0:
		text = fmt.Sprintf("%s port %d", c.Host, c.Port)
	}
	if c.Protocol != "" {
		text = c.Protocol + " of " + text
	}
	return text
}
