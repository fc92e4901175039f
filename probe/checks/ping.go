package checks

import (
	"context"
	"net/netip"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/icmp"
)

// Facts of the ping checks.
const (
	FactSent     probe.Fact = "sent"       // packets
	FactReceived probe.Fact = "received"   // packets
	FactRTT      probe.Fact = "rtt_ms"     // mean, milliseconds
	FactRTTMin   probe.Fact = "rtt_min_ms" // milliseconds
	FactRTTMax   probe.Fact = "rtt_max_ms" // milliseconds
	FactNode     probe.Fact = "node"       // the node the target lives on
)

func ping(ctx context.Context, p *probe.Pass, targets []probe.Target, kind, nobody string) {
	if len(targets) == 0 {
		p.Report(gap(p, kind, nobody))
		return
	}
	byFamily := splitByFamily(targets)
	each([]int{4, 6}, func(f int) {
		targets := byFamily[f]
		addrs := make([]netip.Addr, len(targets))
		for i, t := range targets {
			addrs[i] = t.Addr
		}
		stats, err := icmp.Ping(ctx, addrs)
		for i, t := range targets {
			if err != nil {
				p.Report(probe.Failed(err).On(t.String()).With(FactFamily, f))
				continue
			}
			p.Report(pinged(stats[i]).On(t.String()).With(FactFamily, f).With(FactNode, t.Node))
		}
	})
}

func pinged(s icmp.Stats) probe.Result {
	var r probe.Result
	switch {
	case s.Received == 0 && s.Refusal == "denied":
		r = probe.Found(probe.Fail, "no packet could leave: this node's own firewall refuses them")
	case s.Received == 0 && s.Refusal != "":
		r = probe.Found(probe.Fail, "no packet could leave this node: %s", s.Refusal)
	case s.Received == 0 && s.Bounced != "":
		r = probe.Found(probe.Fail, "%d of %d packets came back: %s", s.Received, s.Sent, s.Bounced)
	case s.Received == 0 && s.Cut:
		return probe.Found(probe.Unknown, "stopped before an answer to %d packets could come", s.Sent)
	case s.Received == 0:
		r = probe.Found(probe.Fail, "none of %d packets came back", s.Sent)
	case s.Received < s.Sent:
		r = probe.Found(probe.Warn, "%d of %d packets came back, %s on average", s.Received, s.Sent, s.Avg.Round(10*time.Microsecond))
	default:
		r = probe.Found(probe.OK, "%d of %d packets came back, %s on average", s.Received, s.Sent, s.Avg.Round(10*time.Microsecond))
	}
	if s.Received > 0 {
		r = r.With(FactRTT, milliseconds(s.Avg)).With(FactRTTMin, milliseconds(s.Min)).With(FactRTTMax, milliseconds(s.Max))
	}
	if s.Refusal != "" {
		r = r.With(probe.FactReason, s.Refusal)
	}
	return r.With(FactSent, s.Sent).With(FactReceived, s.Received)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
