package do

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/drops"
	"github.com/calico-probe/calico-probe/probe/icmp"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/skbdrop"
)

// tracing is one run of 'drops --trace', which follows our own packets to an address.
type tracing struct {
	to   netip.Addr
	port uint16 // TCP port, 0 = pings
	// in lists the namespaces in which rules are counted. If the node's namespace can be entered, it comes first.
	in []drops.Space
}

const (
	tracedEchoes   = 17
	tracedConnects = 4 // each connection has its own port, which the filter must contain
	// held is how long the kernel queues packets for a neighbour that does not answer. It sends three requests,
	// one second apart.
	held = 3500 * time.Millisecond
	// vxlanPort is the port that IANA assigned, and Calico's default.
	vxlanPort = 4789
)

// delivery describes what happened to the packets from the sender's point of view.
type delivery struct {
	sent, answered int
	silent         int    // there was no reply, so the packet may still be in transit
	what, failed   string // "echoes", "lost"
	reason         string // why the last packet was not answered, if the sender was notified
}

func (d delivery) lost() int { return d.sent - d.answered }

// run sends packets while the kernel reports where they are.
func (q tracing) run(ctx context.Context, j *probe.Job) probe.Result {
	filter := skbdrop.Filter{Addrs: []netip.Addr{q.to}, Protocol: skbdrop.TCP, VXLAN: q.vxlan()}
	if roleOf, _, err := kernel.RouteOf(kernel.Packet{To: q.to}); err == nil && roleOf.Source.IsValid() {
		filter.Addrs = append(filter.Addrs, roleOf.Source) // if the target's address is translated
	}
	id := uint16(1 + rand.IntN(1<<16-1))
	if q.port == 0 {
		filter.Protocol, filter.Numbers = skbdrop.ICMP, []uint16{id}
	}
	before, err := drops.Count(q.in)
	if err != nil {
		j.Say("not all rules can be counted, so some cannot be named: %s", probe.OneLine(err.Error()))
	}
	t, err := skbdrop.Open(filter)
	if err != nil {
		return untraced(err)
	}
	defer t.Close() // even after a panic, because the session continues
	sent, err := q.send(ctx, j, t, id)
	if sent.silent > 0 {
		j.Say("no reply to %d: waiting %s for packets that the kernel may still hold", sent.silent, short(held))
		select {
		case <-ctx.Done():
		case <-time.After(held):
		}
	}
	events, gaps, ended := t.End()
	after, _ := drops.Count(q.in)
	switch err := errors.Join(err, ended); {
	case err != nil:
		return unread(err)
	case sent.sent == 0 || ctx.Err() != nil:
		return probe.Found(probe.Unknown, "stopped before the path of packets to %s was known", q.to)
	}
	v := newView(j.Host, q.in[0].Name)
	v.grew, v.paths = after.Deaths(before), skbdrop.Paths(events, t.Ports()...)
	r := q.report(j, v, sent)
	switch g, seen := v.lost(); {
	case gaps.Skipped > 0 && r.Status == probe.Fail && (!seen || g.End().Kind != skbdrop.Dropped):
		j.Say("%d times the kernel skipped the trace, while it ran for another packet", gaps.Skipped)
		return probe.Found(probe.Unknown, "%s; but part of their path was not seen: run it again", r.Saw)
	case gaps.More > 0:
		j.Say("of %d events the first %d are shown", gaps.More+len(events), len(events))
		return probe.Found(probe.Unknown, "another program sends packets like ours to or from %s: the result may be wrong", q.to)
	}
	return r
}

// untraced explains why drops cannot be traced, and what works without a trace.
func untraced(err error) probe.Result {
	const without = "'drops' without --trace counts losses"
	u, is := errors.AsType[*skbdrop.UnavailableError](err)
	switch {
	case !is:
		return unread(err)
	case u.Why == skbdrop.NoRight:
		return probe.Found(probe.Skip, "%v; %s", u, without).With(probe.FactReason, string(u.Why))
	}
	return probe.Found(probe.Unknown, "%v; %s", u, without).With(probe.FactReason, string(u.Why))
}

// vxlan returns the port of the node's VXLAN device, if it differs from the default.
func (q tracing) vxlan() uint16 {
	var links []kernel.Link
	read := func(*probe.Host) (err error) {
		links, err = kernel.Links()
		return err
	}
	if err := q.in[0].Do(read); err != nil { // the default port is then used
		return vxlanPort
	}
	for _, l := range links {
		if l.VXLAN != nil && l.VXLAN.Port > 0 && l.VXLAN.Port <= 65535 {
			return uint16(l.VXLAN.Port)
		}
	}
	return vxlanPort
}

func (q tracing) send(ctx context.Context, j *probe.Job, t *skbdrop.Trace, id uint16) (delivery, error) {
	if q.port > 0 {
		return q.connect(ctx, j, t)
	}
	d := delivery{what: "echoes", failed: "lost"}
	pace := icmp.Pace{Packets: tracedEchoes, Every: 20 * time.Millisecond, ID: id}
	stats, err := icmp.Ping(ctx, []netip.Addr{q.to}, pace)
	if err != nil {
		return d, fmt.Errorf("pinging %s: %w", q.to, err)
	}
	s := stats[0]
	d.sent, d.answered, d.silent, d.reason = s.Sent, s.Received, s.Sent-s.Received-s.Refused, s.Bounced
	if s.Refusal != "" && s.Refusal != "error" {
		d.reason = "they could not leave: " + node.Refusal(s.Refusal)
	}
	j.Say("%d echoes sent to %s, %d came back", d.sent, q.to, d.answered)
	return d, nil
}

// connect opens connections. Each uses a port that the trace watches.
func (q tracing) connect(ctx context.Context, j *probe.Job, t *skbdrop.Trace) (delivery, error) {
	d := delivery{what: "connections", failed: "not opened"}
	dialer := net.Dialer{Timeout: 700 * time.Millisecond, Control: t.Control}
	for range tracedConnects {
		conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(q.to, q.port).String())
		if ctx.Err() != nil {
			break
		}
		d.sent++
		if err == nil {
			d.answered++
			conn.Close()
			continue
		}
		reason := probe.Reason(err)
		if d.reason = node.Refusal(reason); reason == "timeout" {
			d.silent++
		}
	}
	j.Say("%s tried to %s, %d opened", several(d.sent, "connection"), netip.AddrPortFrom(q.to, q.port), d.answered)
	return d, nil
}

// report prints the paths, and the places where lost packets ended.
func (q tracing) report(j *probe.Job, v *view, sent delivery) probe.Result {
	for _, g := range skbdrop.Groups(v.paths) {
		v.show(j, g)
	}
	target := q.to.String()
	if q.port > 0 {
		target = netip.AddrPortFrom(q.to, q.port).String()
	}
	if sent.lost() == 0 {
		return probe.Found(probe.OK, "%s: %d of %d %s were answered, and this is their path", target, sent.answered,
			sent.sent, sent.what)
	}
	lost := fmt.Sprintf("%s: %d of %d %s were %s", target, sent.lost(), sent.sent, sent.what, sent.failed)
	g, seen := v.lost()
	switch {
	case !seen && sent.reason != "":
		return probe.Found(probe.Fail, "%s, and no packet was created: %s", lost, sent.reason)
	case !seen:
		return probe.Found(probe.Fail, "%s, and the kernel reported no packet of them", lost)
	}
	return probe.Found(probe.Fail, "%s: the %s %s", lost, g.Role.Noun(), v.end(g))
}

// answered reports whether the reply to a ping arrived. If the ping also seems to have been
// dropped, that was a copy of it.
func (v *view) answered(p skbdrop.Path) bool {
	e := p.Steps[0]
	return p.Role == skbdrop.Sent && e.Protocol != skbdrop.TCP && slices.ContainsFunc(v.paths, func(a skbdrop.Path) bool {
		return a.Role == skbdrop.Answer && a.Arrived && a.Steps[0].Seq == e.Seq
	})
}

// lost returns the packets whose end explains why not all packets were answered.
func (v *view) lost() (skbdrop.Group, bool) {
	return ending(skbdrop.Groups(slices.DeleteFunc(slices.Clone(v.paths), v.answered)))
}

// ending returns the packets whose end explains a loss. Dropped packets come first, then replies that were
// last seen somewhere, and then requests.
func ending(groups []skbdrop.Group) (skbdrop.Group, bool) {
	for _, fits := range []func(skbdrop.Group) bool{
		func(g skbdrop.Group) bool { return g.Role != skbdrop.Rejected && g.End().Kind == skbdrop.Dropped },
		func(g skbdrop.Group) bool { return g.Role == skbdrop.Answer && !g.Arrived },
		func(g skbdrop.Group) bool { return g.Role == skbdrop.Sent },
	} {
		if i := slices.IndexFunc(groups, fits); i >= 0 {
			return groups[i], true
		}
	}
	return skbdrop.Group{}, false
}

// show prints the path of some packets, with one line for each network namespace: "the node: came in by cali12 →
// routed → dropped in FORWARD at cali12: NETFILTER_DROP, nft_do_chain".
func (v *view) show(j *probe.Job, g skbdrop.Group) {
	j.Say("%dx %s", g.Count, g.Role)
	for i := 0; i < len(g.Steps); {
		in := g.Steps[i].Namespace
		var line []string
		for ; i < len(g.Steps) && g.Steps[i].Namespace == in; i++ {
			if i > 0 && g.Steps[i].TTL < g.Steps[i-1].TTL {
				line = append(line, "routed")
			}
			line = append(line, step(g.Steps[i]))
			if rule := v.rule(g.Steps[i]); rule != "" {
				line[len(line)-1] += ", by " + rule
			}
		}
		if i == len(g.Steps) && g.Arrived {
			line = append(line, "arrived")
		}
		j.Say("    %s: %s", v.where(in), strings.Join(line, " → "))
	}
}
