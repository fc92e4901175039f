package node

import (
	"net/netip"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// Facts of pod-mtu. All sizes are in bytes of a whole IP packet.
const (
	FactReportedMTU probe.Fact = "told"      // the MTU that a router reported
	FactDevice      probe.Fact = "device"    // the outgoing interface
	FactSmallest    probe.Fact = "vanishing" // size of the smallest packet that did not come back
)

// SmallPacket passes on every path, because it is less than half the size that IPv4 hosts must accept.
const SmallPacket = 256

// Sizes holds the results for a path so far.
type Sizes struct {
	Promised    int    // the size that the outgoing interface allows
	Device      string // the outgoing interface
	Passes      int    // the largest size that came back
	Vanishes    int    // the smallest size that did not come back, Promised+1 if all did
	Refused     bool   // true if a router rejected a packet of that size
	ReportedMTU int    // the MTU that this router reported, 0 = none
}

// Next returns the next size to try.
func (s Sizes) Next() int {
	switch {
	case s.Vanishes > s.Promised:
		return s.Promised
	case s.ReportedMTU > s.Passes && s.ReportedMTU < s.Vanishes:
		return s.ReportedMTU
	}
	return (s.Passes + s.Vanishes) / 2
}

// Done reports whether all sizes between the passing and the lost packets were tried, or whether
// the size that the router reported was right.
func (s Sizes) Done() bool {
	return s.Passes+1 >= s.Vanishes || s.Refused && s.Passes == s.ReportedMTU
}

func (s Sizes) Result() probe.Result {
	var r probe.Result
	switch {
	case s.Vanishes > s.Promised:
		r = probe.Found(probe.OK, "packets of %d bytes pass, the full MTU of %s", s.Promised, s.Device)
	case s.Refused && s.ReportedMTU == s.Passes:
		r = probe.Found(probe.Info, "a router on the path reports a path MTU of %d, and packets of that size pass; the MTU of the sender's %s is %d",
			s.ReportedMTU, s.Device, s.Promised)
	case s.Refused:
		r = probe.Found(probe.Info,
			"a router on the path rejects packets larger than %d bytes without reporting the right size; the MTU of the sender's %s is %d",
			s.Passes, s.Device, s.Promised)
	default:
		r = probe.Found(probe.Fail, "packets of %d bytes pass, but packets of %d are lost without an ICMP error; the MTU of the sender's %s is %d",
			s.Passes, s.Vanishes, s.Device, s.Promised).With(probe.FactReason, "timeout")
	}
	if s.ReportedMTU > 0 {
		r = r.With(FactReportedMTU, s.ReportedMTU)
	}
	if s.Vanishes <= s.Promised {
		r = r.With(FactSmallest, s.Vanishes)
	}
	return r.With(probe.FactPromised, s.Promised).With(probe.FactPasses, s.Passes).With(FactDevice, s.Device)
}

// Promised returns the maximum packet size to an address, and the outgoing device. The size is the one configured
// for the link or route, not the one that the kernel has learnt about the path.
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
