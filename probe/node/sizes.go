package node

import (
	"net/netip"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// Facts of pod-mtu, all in bytes of a whole IP packet.
const (
	FactTold     probe.Fact = "told"      // what a router said would fit
	FactDevice   probe.Fact = "device"    // by which it is sent
	FactSmallest probe.Fact = "vanishing" // the smallest packet that did not come back
)

// SmallPacket is as much as every path carries: less than half of what IPv4 hosts
// must take.
const SmallPacket = 256

// Sizes is what was found out about a path so far.
type Sizes struct {
	Promised int    // by the device
	Device   string // of the way there
	Passes   int    // the biggest that came back
	Vanishes int    // the smallest that did not, promised+1 when all did
	Refused  bool   // that one was sent back by a router
	Told     int    // what that router said would fit, 0 = it did not say
}

// Next is the size to try.
func (s Sizes) Next() int {
	switch {
	case s.Vanishes > s.Promised:
		return s.Promised
	case s.Told > s.Passes && s.Told < s.Vanishes:
		return s.Told
	}
	return (s.Passes + s.Vanishes) / 2
}

// done: nothing is between what passes and what does not, or the router was right.
func (s Sizes) Done() bool {
	return s.Passes+1 >= s.Vanishes || s.Refused && s.Passes == s.Told
}

func (s Sizes) Result() probe.Result {
	var r probe.Result
	switch {
	case s.Vanishes > s.Promised:
		r = probe.Found(probe.OK, "packets of %d bytes pass, the full MTU of %s", s.Promised, s.Device)
	case s.Refused && s.Told == s.Passes:
		r = probe.Found(probe.Info, "a router on the way reports a path MTU of %d, and such packets pass; the sender's %s has %d",
			s.Told, s.Device, s.Promised)
	case s.Refused:
		r = probe.Found(probe.Info,
			"a router on the way rejects packets larger than %d bytes without reporting the right size; the sender's %s has %d",
			s.Passes, s.Device, s.Promised)
	default:
		r = probe.Found(probe.Fail, "packets of %d bytes pass, those of %d are lost without an ICMP error; the sender's %s has %d",
			s.Passes, s.Vanishes, s.Device, s.Promised).With(probe.FactReason, "timeout")
	}
	if s.Told > 0 {
		r = r.With(FactTold, s.Told)
	}
	if s.Vanishes <= s.Promised {
		r = r.With(FactSmallest, s.Vanishes)
	}
	return r.With(probe.FactPromised, s.Promised).With(probe.FactPasses, s.Passes).With(FactDevice, s.Device)
}

// Promised is how big a packet may be that goes to an address, and by which
// device: what a link or a route is set to, not what the kernel has learnt of the
// path.
func Promised(to netip.Addr) (mtu int, device string, err error) {
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
