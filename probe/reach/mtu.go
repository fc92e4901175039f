package reach

import (
	"context"
	"net/netip"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/icmp"
	"github.com/calico-probe/calico-probe/probe/node"
)

func PathMTU(ctx context.Context, to netip.Addr) probe.Result {
	mtu, device, err := node.Promised(to)
	if err != nil {
		return node.Unseen(err)
	}
	// An IPv4 packet has at most 65535 bytes, regardless of what the device supports.
	s := node.Sizes{Promised: min(mtu, 65535), Device: device, Passes: node.SmallPacket}
	s.Vanishes = s.Promised + 1
	small, err := icmp.Whole(ctx, to, node.SmallPacket, icmp.Wait)
	if r, ok := notEvenSmall(small, err); !ok {
		return r
	}
	// Long enough for a path on which large packets are slower.
	wait := 200*time.Millisecond + 4*small.Max
	for !s.Done() && ctx.Err() == nil {
		size := s.Next()
		got, err := icmp.Whole(ctx, to, size, wait)
		switch {
		case err != nil:
			return node.Unseen(err)
		case got.Received > 0:
			s.Passes = size
		case got.Cut:
		case got.TooBig:
			s.Vanishes, s.Refused, s.ReportedMTU = size, true, got.ReportedMTU
		case got.Refused > 0:
			return probe.Found(probe.Unknown, "packets of %d bytes could not leave: %s", size, node.Refusals[got.Refusal]).
				With(probe.FactReason, got.Refusal)
		default:
			s.Vanishes, s.Refused = size, false
		}
	}
	if s.Vanishes > s.Promised && !s.Done() {
		return probe.Found(probe.Unknown, "stopped before packets of %d bytes were sent", s.Promised)
	}
	if s.Vanishes <= s.Promised && !s.Refused { // did the target stop answering, or did it lose some packets by chance?
		small, err := icmp.Whole(ctx, to, node.SmallPacket, wait)
		if r, ok := notEvenSmall(small, err); !ok {
			return r
		}
		if again, err := icmp.Whole(ctx, to, s.Vanishes, wait); err == nil && again.Received > 0 {
			return probe.Found(probe.Unknown,
				"packets of every size are lost, so the path MTU cannot be measured")
		}
	}
	r := s.Result()
	if r.Status == probe.OK && fragmentsLost(ctx, to, s.Promised, wait) {
		r.Status = probe.Info // some clouds do not pass fragments, and few programs need them
		r.Saw += "; larger pings, in fragments, are lost"
		r = r.With(probe.FactReason, probe.ReasonFragments)
	}
	return r
}

// fragmentsLost sends packets in two fragments along a path on which full-size packets come back.
// It reports whether all of them are lost, in two attempts.
func fragmentsLost(ctx context.Context, to netip.Addr, mtu int, wait time.Duration) bool {
	for range 2 {
		got, err := icmp.Fragmented(ctx, to, 2*mtu-node.SmallPacket, wait)
		if err != nil || got.Cut || got.Received > 0 || got.Refused > 0 {
			return false
		}
	}
	full, err := icmp.Whole(ctx, to, mtu, wait)
	return err == nil && full.Received > 0
}

// notEvenSmall returns the result for a path on which nothing can be measured. It also reports
// whether something can be measured.
func notEvenSmall(s icmp.Stats, err error) (probe.Result, bool) {
	switch {
	case err != nil:
		return node.Unseen(err), false
	case s.Received > 0:
		return probe.Result{}, true
	case s.Cut:
		return probe.Found(probe.Unknown, "stopped before packets of %d bytes came back", node.SmallPacket), false
	}
	why := ""
	if s.Refused > 0 {
		why = ": " + node.Refusals[s.Refusal]
	} else if s.Bounced != "" {
		why = ": " + s.Bounced
	}
	return probe.Found(probe.Unknown, "not even packets of %d bytes pass, so the path MTU cannot be measured%s",
		node.SmallPacket, why), false
}
