package checks

import (
	"context"
	"net/netip"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/icmp"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// PodMTU finds the packets that vanish for their size alone. Names resolve, pings
// answer, connections open, and hang with the first full packet.
var PodMTU = &probe.Check{
	ID: "pod-mtu", Asks: "do full-size packets reach workload pods on other nodes, from this node and from inside a pod?", From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags: []string{tagNetwork}, Access: []string{"host network", "NET_RAW", probe.AccessPods}, Run: podMTUs,
	Limit: 12 * time.Second, Needs: []string{probe.CheckNodeUplink, probe.CheckPodUplink, probe.CheckPodPing},
	Doc: `Echo requests that must not be fragmented, of the MTU of the interface or route to a workload pod on each of up to eight other nodes; if they are not answered, the check searches for the largest that are. Asked from the node, and again from inside one of this node's own pods, whose MTU is what counts for users.
ok: full-size packets pass. info: a router on the way reports a smaller path MTU, and such packets pass: TCP adapts to that, some programs over UDP do not. fail: small packets pass and larger ones are lost without an ICMP error: connections open, then hang with the first large transfer. Calico's tunnels add 20 bytes (IPIP), 50 (VXLAN, 70 over IPv6) or 60 (WireGuard, 80 over IPv6) of what the network between the nodes carries; usual reasons are that network's own lower limit (a VPN, a cloud's interconnect, another overlay), an interface Calico did not look at when it worked out the MTU (bonds, bridges and VLANs), or pods that are older than a change of the MTU.
info, too: full-size packets pass, and pings larger than the MTU, sent in fragments, are lost: programs over UDP lose what is larger than the MTU. A firewall of either node, the network between them or the network namespace of either pod drops fragments. Some clouds pass none.
unknown: not even small packets pass, see pod-ping; or no right to open a raw ICMP socket. skip: nobody to ask, or no pod on this node to ask from.`,
}

// Facts of pod-mtu, all in bytes of a whole IP packet.
const (
	FactPromised probe.Fact = "promised"  // what the interface or the route promises
	FactPasses   probe.Fact = "passes"    // the biggest packet that came back
	FactTold     probe.Fact = "told"      // what a router said would fit
	FactDevice   probe.Fact = "device"    // by which it is sent
	FactSmallest probe.Fact = "vanishing" // the smallest packet that did not come back
)

// ReasonFragments is the reason of a path that loses fragments alone.
const ReasonFragments = "fragments"

// smallPacket is as much as every path carries: less than half of what IPv4 hosts
// must take.
const smallPacket = 256

func podMTUs(ctx context.Context, p *probe.Pass) {
	targets := elsewhere(unique(p.Of(probe.KindPod)))
	if len(targets) == 0 {
		p.Report(gap(p, probe.KindPod, "no running workload pod on another node is known"))
		return
	}
	each(targets, func(t probe.Target) {
		r := pathMTU(ctx, t.Addr)
		p.Report(about(r, t).On(t.String()).With(FactFamily, family(t.Addr)).With(probe.FactNode, t.Node))
	})
}

// sizes is what was found out about a path so far.
type sizes struct {
	promised int    // by the device
	device   string // of the way there
	passes   int    // the biggest that came back
	vanishes int    // the smallest that did not, promised+1 when all did
	refused  bool   // that one was sent back by a router
	told     int    // what that router said would fit, 0 = it did not say
}

// next is the size to try.
func (s sizes) next() int {
	switch {
	case s.vanishes > s.promised:
		return s.promised
	case s.told > s.passes && s.told < s.vanishes:
		return s.told
	}
	return (s.passes + s.vanishes) / 2
}

// done: nothing is between what passes and what does not, or the router was right.
func (s sizes) done() bool {
	return s.passes+1 >= s.vanishes || s.refused && s.passes == s.told
}

func pathMTU(ctx context.Context, to netip.Addr) probe.Result {
	mtu, device, err := promised(to)
	if err != nil {
		return unseen(err)
	}
	// A packet of IPv4 has no more than 65535 bytes, whatever the device takes.
	s := sizes{promised: min(mtu, 65535), device: device, passes: smallPacket}
	s.vanishes = s.promised + 1
	small, err := icmp.Whole(ctx, to, smallPacket, icmp.Wait)
	if r, ok := notEvenSmall(small, err); !ok {
		return r
	}
	// Time enough for a path that is slower with big packets.
	wait := 200*time.Millisecond + 4*small.Max
	for !s.done() && ctx.Err() == nil {
		size := s.next()
		got, err := icmp.Whole(ctx, to, size, wait)
		switch {
		case err != nil:
			return unseen(err)
		case got.Received > 0:
			s.passes = size
		case got.Cut:
		case got.TooBig:
			s.vanishes, s.refused, s.told = size, true, got.Told
		case got.Refused > 0:
			return probe.Found(probe.Unknown, "packets of %d bytes could not leave: %s", size, refusals[got.Refusal]).
				With(probe.FactReason, got.Refusal)
		default:
			s.vanishes, s.refused = size, false
		}
	}
	if s.vanishes > s.promised && !s.done() {
		return probe.Found(probe.Unknown, "stopped before packets of %d bytes could be asked", s.promised)
	}
	if s.vanishes <= s.promised && !s.refused { // or did it fall silent, or lose some by chance?
		small, err := icmp.Whole(ctx, to, smallPacket, wait)
		if r, ok := notEvenSmall(small, err); !ok {
			return r
		}
		if again, err := icmp.Whole(ctx, to, s.vanishes, wait); err == nil && again.Received > 0 {
			return probe.Found(probe.Unknown,
				"packets are lost whatever their size, so the path MTU cannot be measured")
		}
	}
	r := s.result()
	if r.Status == probe.OK && fragmentsLost(ctx, to, s.promised, wait) {
		r.Status = probe.Info // some clouds pass no fragments, and few programs need them
		r.Saw += "; larger pings, in fragments, are lost"
		r = r.With(probe.FactReason, ReasonFragments)
	}
	return r
}

// fragmentsLost reports whether no packet of two fragments comes back, twice, from where full-size packets do.
func fragmentsLost(ctx context.Context, to netip.Addr, mtu int, wait time.Duration) bool {
	for range 2 {
		got, err := icmp.Fragmented(ctx, to, 2*mtu-smallPacket, wait)
		if err != nil || got.Cut || got.Received > 0 || got.Refused > 0 {
			return false
		}
	}
	full, err := icmp.Whole(ctx, to, mtu, wait)
	return err == nil && full.Received > 0
}

// notEvenSmall is the result of a path on which nothing can be measured; true when
// it can.
func notEvenSmall(s icmp.Stats, err error) (probe.Result, bool) {
	switch {
	case err != nil:
		return unseen(err), false
	case s.Received > 0:
		return probe.Result{}, true
	case s.Cut:
		return probe.Found(probe.Unknown, "stopped before packets of %d bytes came back", smallPacket), false
	}
	why := ""
	if s.Refused > 0 {
		why = ": " + refusals[s.Refusal]
	} else if s.Bounced != "" {
		why = ": " + s.Bounced
	}
	return probe.Found(probe.Unknown, "not even packets of %d bytes pass, so the path MTU cannot be measured%s",
		smallPacket, why), false
}

func (s sizes) result() probe.Result {
	var r probe.Result
	switch {
	case s.vanishes > s.promised:
		r = probe.Found(probe.OK, "packets of %d bytes pass, the full MTU of %s", s.promised, s.device)
	case s.refused && s.told == s.passes:
		r = probe.Found(probe.Info, "a router on the way reports a path MTU of %d, and such packets pass; the sender's %s has %d",
			s.told, s.device, s.promised)
	case s.refused:
		r = probe.Found(probe.Info,
			"a router on the way rejects packets larger than %d bytes without reporting the right size; the sender's %s has %d",
			s.passes, s.device, s.promised)
	default:
		r = probe.Found(probe.Fail, "packets of %d bytes pass, those of %d are lost without an ICMP error; the sender's %s has %d",
			s.passes, s.vanishes, s.device, s.promised).With(probe.FactReason, "timeout")
	}
	if s.told > 0 {
		r = r.With(FactTold, s.told)
	}
	if s.vanishes <= s.promised {
		r = r.With(FactSmallest, s.vanishes)
	}
	return r.With(FactPromised, s.promised).With(FactPasses, s.passes).With(FactDevice, s.device)
}

// promised is how big a packet may be that goes to an address, and by which
// device: what a link or a route is set to, not what the kernel has learnt of the
// path.
func promised(to netip.Addr) (mtu int, device string, err error) {
	way, matched, err := kernel.RouteOf(kernel.Packet{To: to})
	if err != nil {
		return 0, "", err
	}
	link, err := kernel.LinkNamed(way.Hops[0].Device)
	if err != nil {
		return 0, "", err
	}
	mtu = link.MTU
	if matched != nil && matched.MTU > 0 {
		mtu = min(mtu, matched.MTU)
	}
	return mtu, link.Name, nil
}
