package reach

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/icmp"
	"github.com/calico-probe/calico-probe/probe/node"
)

func Ping(ctx context.Context, p *probe.Pass, targets []probe.Target, kind, none string) {
	if len(targets) == 0 {
		p.Report(node.Gap(p, kind, none))
		return
	}
	pace := icmp.Usual
	if p.Brief {
		pace = icmp.Brisk
	}
	byFamily := node.SplitByFamily(targets)
	node.Each([]int{4, 6}, func(f int) {
		targets := byFamily[f]
		addrs := make([]netip.Addr, len(targets))
		for i, t := range targets {
			addrs[i] = t.Addr
		}
		stats, err := icmp.Ping(ctx, addrs, pace)
		if err == nil && !p.Brief {
			measure(ctx, stats)
		}
		unanswered := kind == probe.KindNode && allSilent(stats, targets)
		live := make([]bool, len(targets))
		if kind == probe.KindNode && err == nil {
			node.Each(silentOf(stats), func(i int) { live[i] = takesTCP(ctx, targets[i].Addr) })
		}
		for i, t := range targets {
			if err != nil {
				p.Report(probe.Failed(err).On(t.String()).With(probe.FactFamily, f))
				continue
			}
			r := Pinged(stats[i], pace)
			if unanswered && r.Status == probe.Fail {
				r.Status = probe.Warn
				r.Saw += "; no other node answers either: the network may block ping"
			}
			if live[i] && r.Status != probe.Unknown {
				r.Status = probe.Warn
				r.Saw += fmt.Sprintf("; TCP %d answers there: ping is disabled or blocked, and the machine is up", node.PortKubelet)
				r = r.With(probe.FactLives, true)
			}
			p.Report(node.About(r, t).On(t.String()).With(probe.FactFamily, f).With(probe.FactNode, t.Node))
		}
	})
}

// If a few packets do not show how many packets a path loses, this many more are sent, to at most maxMeasured addresses
// in a family. A path that loses lossy percent of its packets fails, because TCP is already very slow if a tenth is
// lost.
var measuring = icmp.Pace{Packets: 50, Every: 20 * time.Millisecond}

const (
	maxMeasured = 4
	lossy       = 10
)

// measure sends more packets to addresses that lost some of their packets, and adds the results.
func measure(ctx context.Context, stats []icmp.Stats) {
	var addrs []netip.Addr
	var of []int
	for i, s := range stats {
		if 0 < s.Received && s.Received < s.Sent && s.Refused == 0 && !s.Cut && len(of) < maxMeasured {
			addrs, of = append(addrs, s.Addr), append(of, i)
		}
	}
	if len(of) == 0 {
		return
	}
	more, err := icmp.Ping(ctx, addrs, measuring)
	if err != nil {
		return // keep the result from the first packets
	}
	for at, i := range of {
		if m := more[at]; !m.Cut && m.Refused == 0 {
			stats[i] = together(stats[i], m)
		}
	}
}

// together merges the results of two bursts to one address.
func together(a, b icmp.Stats) icmp.Stats {
	if b.Received == 0 {
		a.Sent += b.Sent
		return a
	}
	sum := time.Duration(a.Received)*a.Avg + time.Duration(b.Received)*b.Avg
	a.Sent, a.Received = a.Sent+b.Sent, a.Received+b.Received
	a.Avg, a.Min, a.Max = sum/time.Duration(a.Received), min(a.Min, b.Min), max(a.Max, b.Max)
	return a
}

// silentOf returns the indices of addresses that did not reply.
func silentOf(stats []icmp.Stats) (out []int) {
	for i, s := range stats {
		if s.Received == 0 && s.Refused == 0 && s.Bounced == "" && !s.Cut {
			out = append(out, i)
		}
	}
	return out
}

// takesTCP reports whether a machine answers on its kubelet's port. A refusal also counts as an answer.
func takesTCP(ctx context.Context, addr netip.Addr) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, c := Open(ctx, netip.AddrPortFrom(addr, node.PortKubelet), time.Second)
	if conn != nil {
		_ = conn.Close()
	}
	return conn != nil || c.ICMP.text == "" && c.Reason() == "refused"
}

// allSilent reports whether at least two nodes were pinged and all are silent. In that case, the network may block
// pings, as some clouds do.
func allSilent(stats []icmp.Stats, targets []probe.Target) bool {
	nodes := map[string]bool{}
	for i, s := range stats {
		nodes[targets[i].Node] = true
		if s.Received > 0 || s.Refused > 0 || s.Bounced != "" {
			return false
		}
	}
	return len(nodes) > 1
}

func Pinged(s icmp.Stats, pace icmp.Pace) probe.Result {
	var r probe.Result
	why := ""
	switch {
	case s.Refused > 0:
		why = fmt.Sprintf("; %d could not leave: %s", s.Refused, node.Refusals[s.Refusal])
	case s.Bounced != "":
		why = "; " + s.Bounced
	}
	switch {
	case s.Cut && s.Sent < pace.Packets, s.Cut && s.Received == 0:
		return probe.Found(probe.Unknown, "stopped after %d of %d packets, %d came back", s.Sent, pace.Packets,
			s.Received)
	case s.Refused == s.Sent && s.Refusal == "error":
		return probe.Found(probe.Unknown, "no packet could leave, and the kernel does not report why")
	case s.Received == 0:
		r = probe.Found(probe.Fail, "none of %d packets came back%s", s.Sent, why)
	default:
		r = probe.Found(probe.OK, "%d of %d packets came back, %s on average%s", s.Received, s.Sent,
			s.Avg.Round(10*time.Microsecond), why)
		r = r.With(probe.FactRTT, node.Milliseconds(s.Avg)).With(node.FactRTTMin, node.Milliseconds(s.Min)).
			With(node.FactRTTMax, node.Milliseconds(s.Max))
		switch lost := s.Sent - s.Received; {
		case s.Sent >= measuring.Packets && 100*lost >= lossy*s.Sent:
			r.Status = probe.Fail
		case lost > 0:
			r.Status = probe.Warn
		}
	}
	if s.Refusal != "" {
		r = r.With(probe.FactReason, s.Refusal)
	}
	return r.With(probe.FactSent, s.Sent).With(probe.FactReceived, s.Received)
}
