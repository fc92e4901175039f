package ask

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/drops"
)

// TestPacketDropsWithoutTargets expects a skip if the plan contains only the node itself.
func TestPacketDropsWithoutTargets(t *testing.T) {
	t.Parallel()
	h := &probe.Host{Root: "/", Proc: "/proc"}
	itself := probe.Target{Kind: probe.KindNode, Name: "node-a", Addr: netip.MustParseAddr("127.0.0.1")}
	checktest.Want(t, checktest.Run(t, packetDropsCheck, h, itself), "", probe.Skip, "no other node or pod found")
}

// TestJudgeSearch expects "lost beyond the node" only if the node cannot have dropped the packets uncounted.
func TestJudgeSearch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		found  drops.Found
		status probe.Status
		beyond bool
	}{
		"beyond":          {drops.Found{Left: true}, probe.Info, true},
		"uncounted rules": {drops.Found{Left: true, Uncounted: 1}, probe.Info, false},
		"few":             {drops.Found{Left: true, Few: true}, probe.Info, false},
		"not all read":    {drops.Found{Left: true, Unread: errors.New("broken")}, probe.Unknown, false},
		"not permitted":   {drops.Found{Left: true, Unread: probe.ErrNotVisible}, probe.Skip, false},
	} {
		c.found.Packets, c.found.Lost, c.found.Device = 40, 40, "eth0"
		r := judgeSearch(c.found, drops.Shape{})
		if beyond := r.Facts[factBeyond] == true; r.Status != c.status || beyond != c.beyond {
			t.Errorf("%s: %s, beyond %v: %s", name, r.Status, beyond, r.Saw)
		}
	}
}
