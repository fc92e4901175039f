package kernel

import (
	"testing"

	"github.com/vishvananda/netlink"
)

// TestSettled checks that the carrier overrides the state, which follows it, and that other states stay unchanged.
func TestSettled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		up, carrier bool
		state       netlink.LinkOperState
		want        string
	}{
		{true, true, netlink.OperUp, "up"},
		{true, false, netlink.OperUp, "lower-layer-down"},
		{true, true, netlink.OperLowerLayerDown, "up"},
		{true, true, netlink.OperDown, "up"},
		{true, false, netlink.OperDown, "down"},
		{false, true, netlink.OperDown, "down"},
		{true, true, netlink.OperDormant, "dormant"},
		{true, true, netlink.OperUnknown, "unknown"},
	} {
		if got := settled(Link{Up: c.up, Carrier: c.carrier}, c.state); got != c.want {
			t.Errorf("up %t, carrier %t, %s: %s, want %s", c.up, c.carrier, c.state, got, c.want)
		}
	}
}
