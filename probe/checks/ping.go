package checks

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/icmp"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// Facts of the ping checks.
const (
	FactSent     probe.Fact = "sent"       // packets
	FactReceived probe.Fact = "received"   // packets
	FactRTT      probe.Fact = "rtt_ms"     // mean, milliseconds
	FactRTTMin   probe.Fact = "rtt_min_ms" // milliseconds
	FactRTTMax   probe.Fact = "rtt_max_ms" // milliseconds
	FactLives    probe.Fact = "lives"      // true: no ping came back and the machine answers by TCP
)

func ping(ctx context.Context, p *probe.Pass, targets []probe.Target, kind, nobody string) {
	if len(targets) == 0 {
		p.Report(gap(p, kind, nobody))
		return
	}
	pace := icmp.Usual
	if p.Brief {
		pace = icmp.Brisk
	}
	byFamily := splitByFamily(targets)
	each([]int{4, 6}, func(f int) {
		targets := byFamily[f]
		addrs := make([]netip.Addr, len(targets))
		for i, t := range targets {
			addrs[i] = t.Addr
		}
		stats, err := icmp.Ping(ctx, addrs, pace)
		unheard := kind == probe.KindNode && nobodyAnswers(stats, targets)
		live := make([]bool, len(targets))
		if kind == probe.KindNode && err == nil {
			each(silentOf(stats), func(i int) { live[i] = takesTCP(ctx, targets[i].Addr) })
		}
		for i, t := range targets {
			if err != nil {
				p.Report(probe.Failed(err).On(t.String()).With(FactFamily, f))
				continue
			}
			r := pinged(stats[i], pace)
			if unheard && r.Status == probe.Fail {
				r.Status = probe.Warn
				r.Saw += "; no other node answers either: the network may block ping"
			}
			if live[i] && r.Status != probe.Unknown {
				r.Status = probe.Warn
				r.Saw += fmt.Sprintf("; TCP %d answers there: ping is switched off or blocked, the machine is not away", portKubelet)
				r = r.With(FactLives, true)
			}
			p.Report(about(r, t).On(t.String()).With(FactFamily, f).With(probe.FactNode, t.Node))
		}
	})
}

// silentOf are the indices of those of which not a word came.
func silentOf(stats []icmp.Stats) (out []int) {
	for i, s := range stats {
		if s.Received == 0 && s.Refused == 0 && s.Bounced == "" && !s.Cut {
			out = append(out, i)
		}
	}
	return out
}

// takesTCP tells whether a machine answers at its kubelet's port, be it by a refusal.
func takesTCP(ctx context.Context, addr netip.Addr) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, c := open(ctx, netip.AddrPortFrom(addr, portKubelet), time.Second)
	if conn != nil {
		_ = conn.Close()
	}
	return conn != nil || c.said.text == "" && c.reason() == "refused"
}

// nobodyAnswers tells whether two nodes or more were asked and all are silent: then
// it may be pings that are forbidden, as in some clouds.
func nobodyAnswers(stats []icmp.Stats, targets []probe.Target) bool {
	nodes := map[string]bool{}
	for i, s := range stats {
		nodes[targets[i].Node] = true
		if s.Received > 0 || s.Refused > 0 || s.Bounced != "" {
			return false
		}
	}
	return len(nodes) > 1
}

func pinged(s icmp.Stats, pace icmp.Pace) probe.Result {
	var r probe.Result
	why := ""
	switch {
	case s.Refused > 0:
		why = fmt.Sprintf("; %d could not leave: %s", s.Refused, refusals[s.Refusal])
	case s.Bounced != "":
		why = "; " + s.Bounced
	}
	switch {
	case s.Cut && s.Sent < pace.Packets, s.Cut && s.Received == 0:
		return probe.Found(probe.Unknown, "stopped after %d of %d packets, %d came back", s.Sent, pace.Packets,
			s.Received)
	case s.Refused == s.Sent && s.Refusal == "error":
		return probe.Found(probe.Unknown, "no packet could leave, and the kernel does not say why")
	case s.Received == 0:
		r = probe.Found(probe.Fail, "none of %d packets came back%s", s.Sent, why)
	default:
		r = probe.Found(probe.OK, "%d of %d packets came back, %s on average%s", s.Received, s.Sent,
			s.Avg.Round(10*time.Microsecond), why)
		r = r.With(FactRTT, milliseconds(s.Avg)).With(FactRTTMin, milliseconds(s.Min)).
			With(FactRTTMax, milliseconds(s.Max))
		if s.Received < s.Sent {
			r.Status = probe.Warn
		}
	}
	if s.Refusal != "" {
		r = r.With(probe.FactReason, s.Refusal)
	}
	return r.With(FactSent, s.Sent).With(FactReceived, s.Received)
}

// Refusal puts the reason why something could not leave into words.
func Refusal(reason string) string { return refusals[reason] }

var refusals = map[string]string{
	"denied": "rejected locally: a firewall rule (kube-proxy has one for a Service without endpoints), or a prohibit route", "blackhole": "a blackhole route discards it",
	"net-unreachable":  "the sender has no route to it (net-unreachable)",
	"host-unreachable": "an unreachable route, or no answer to ARP or NDP on the link (host-unreachable)",
	"no-address":       "the sender has no address to send from (no-address)",
	"too-big":          "larger than the MTU of the interface it would leave by",
	"error":            "the kernel refuses",
}

// elsewhere are the targets with an address that is not one of where the question
// is asked: a pod does not ask itself.
func elsewhere(targets []probe.Target) []probe.Target {
	own, err := kernel.Links()
	if err != nil {
		return targets // then it asks itself too
	}
	return slices.DeleteFunc(targets, func(t probe.Target) bool {
		return slices.ContainsFunc(own, func(l kernel.Link) bool { return l.Has(t.Addr.Unmap()) })
	})
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
