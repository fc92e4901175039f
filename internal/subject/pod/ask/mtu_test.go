package ask

import (
	"net/netip"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/node"
)

// TestSizes simulates paths of several MTUs. Their routers report the right MTU, a wrong one, a useless one or nothing.
func TestSizes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mtu      int                   // the largest packet that passes
		answers  func(int) (int, bool) // the MTU that a router reports for a larger packet
		status   probe.Status
		saw      string
		attempts int
	}{
		"all":     {9000, nil, probe.OK, "packets of 1500 bytes pass, the full MTU of eth0", 1},
		"exactly": {1500, nil, probe.OK, "1500 bytes pass", 1},
		"black hole": {1410, nil, probe.Fail,
			"packets of 1410 bytes pass, but packets of 1411 are lost without an ICMP error; the MTU of the sender's eth0 is 1500", 13},
		"one less":   {1499, nil, probe.Fail, "packets of 1499 bytes pass, but packets of 1500 are lost", 13},
		"hardly any": {256, nil, probe.Fail, "packets of 256 bytes pass, but packets of 257 are lost", 13},
		"reported": {1400, func(int) (int, bool) { return 1400, true }, probe.Info,
			"reports a path MTU of 1400, and packets of that size pass", 2},
		"reported twice": {1300,
			func(size int) (int, bool) { return map[bool]int{true: 1400, false: 1300}[size > 1400], true },
			probe.Info, "reports a path MTU of 1300", 3},
		"reported without a size": {1400, func(int) (int, bool) { return 0, true }, probe.Info,
			"larger than 1400 bytes without reporting the right size", 13},
		"reported wrongly": {1350, func(size int) (int, bool) { return 1400, size > 1400 }, probe.Fail,
			"packets of 1350 bytes pass, but packets of 1351 are lost", 13},
		"reported larger": {1400, func(int) (int, bool) { return 9000, true }, probe.Info,
			"larger than 1400 bytes without reporting", 13},
	} {
		s := node.Sizes{Promised: 1500, Device: "eth0", Passes: node.SmallPacket, Vanishes: 1501}
		n := 0
		for ; !s.Done(); n++ {
			size := s.Next()
			if size <= s.Passes || size >= s.Vanishes || n > 20 {
				t.Fatalf("%s: tries %d of %+v", name, size, s)
			}
			if size <= c.mtu {
				s.Passes = size
				continue
			}
			s.Vanishes, s.Refused = size, false
			if c.answers != nil {
				if mtu, ok := c.answers(size); ok {
					s.Refused, s.ReportedMTU = true, mtu
				}
			}
		}
		checktest.Want(t, []probe.Result{s.Result()}, "", c.status, c.saw)
		if n > c.attempts {
			t.Errorf("%s: found after %d attempts", name, n)
		}
	}
	checktest.Want(t, checktest.Run(t, podMTUCheck, &probe.Host{}, checktest.Self("10.0.0.1")), "", probe.Skip,
		"no running workload pod")
	nowhere := probe.Target{Kind: probe.KindLocal, Name: "here", Addr: netip.MustParseAddr("10.244.0.1")}
	checktest.Want(t, checktest.Run(t, podMTUCheck, &probe.Host{}, nowhere), "", probe.Skip, "no running workload pod found on another node")
}
