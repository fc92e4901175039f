package reach

import (
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/icmp"
)

// TestLossIsMeasured checks that a path fails because of many packets, not of a few.
func TestLossIsMeasured(t *testing.T) {
	t.Parallel()
	few := icmp.Stats{Sent: 5, Received: 4, Min: 1, Avg: 2, Max: 3}
	for name, c := range map[string]struct {
		of   icmp.Stats
		want probe.Status
	}{
		"all of a few":          {icmp.Stats{Sent: 5, Received: 5}, probe.OK},
		"most of a few":         {few, probe.Warn},
		"a few and all":         {together(few, icmp.Stats{Sent: 50, Received: 50}), probe.Warn},
		"a few and nine tenths": {together(few, icmp.Stats{Sent: 50, Received: 45}), probe.Fail},
		"a few and then none":   {together(few, icmp.Stats{Sent: 50}), probe.Fail},
		"none":                  {icmp.Stats{Sent: 5}, probe.Fail},
	} {
		if got := Pinged(c.of, icmp.Usual).Status; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	both := together(few, icmp.Stats{Sent: 50, Received: 4, Min: 2, Avg: 4 * time.Nanosecond, Max: 9})
	if both.Sent != 55 || both.Received != 8 || both.Min != 1 || both.Avg != 3 || both.Max != 9 {
		t.Errorf("two bursts: %+v", both)
	}
}
