//go:build e2e

package kernel

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealInvalid makes the kernel return EINVAL in each way that RouteOf distinguishes, except MeansForeignSource:
// Linux 6.18 returns ENETUNREACH there.
func TestRealInvalid(t *testing.T) {
	if !nstest.Enter(t, `ip link set lo up
ip link add d0 type veth peer name d1
ip addr add 10.9.0.1/24 dev d0
ip link set d0 up
ip link set d1 up
sysctl -qw net.ipv4.ip_forward=1
ip route add local 10.244.1.64/26 dev d0 table local proto 66
ip route add blackhole 10.8.0.0/16
`) {
		return
	}
	near, kept := netip.MustParseAddr("10.9.0.2"), netip.MustParseAddr("10.244.1.65")
	for name, c := range map[string]struct {
		packet Packet
		want   Meaning
		by     string
	}{
		"blackhole":      {Packet{To: netip.MustParseAddr("10.8.1.1")}, MeansBlackhole, "blackhole 10.8.0.0/16"},
		"own source":     {Packet{To: near, From: kept, In: "d1"}, MeansOwnSource, "local 10.244.1.64/26 dev d0"},
		"martian source": {Packet{To: near, From: netip.MustParseAddr("127.0.0.1"), In: "d1"}, MeansMartian, ""},
		"group's source": {Packet{To: near, From: netip.MustParseAddr("224.0.0.1")}, MeansMartian, ""},
	} {
		_, _, err := RouteOf(c.packet)
		var invalid *Invalid
		if !errors.As(err, &invalid) {
			t.Errorf("%s: %v is no *Invalid", name, err)
			continue
		}
		by := ""
		if invalid.By != nil {
			by = invalid.By.String()
		}
		if invalid.Means != c.want || len(by) < len(c.by) || by[:len(c.by)] != c.by {
			t.Errorf("%s: %q by %q, want %q by %q", name, invalid.Means, by, c.want, c.by)
		}
	}
}
