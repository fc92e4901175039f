package ask

import (
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/bird"
	"github.com/calico-probe/calico-probe/probe/node"
)

// TestJudgeExchange expects a warning for an established session with another node that exchanges no routes, if the
// pools use BGP only.
func TestJudgeExchange(t *testing.T) {
	t.Parallel()
	bgp := map[string]string{probe.AttrIPIP: "Never", probe.AttrVXLAN: "Never"}
	block := func(name, node string, own bool) probe.Target {
		b := probe.Target{Kind: probe.KindBlock, Name: name, Node: node, Attrs: map[string]string{}}
		if own {
			b.Attrs[probe.AttrOwn] = "true"
		}
		return b
	}
	peer := probe.Target{Kind: probe.KindSession, Name: "p", Node: "b",
		Attrs: map[string]string{probe.AttrFilters: "tor-out"}}
	up := bird.Protocol{Proto: "BGP", BGP: "Established", Details: []string{"x"}}
	for name, c := range map[string]struct {
		attrs              map[string]string
		imported, exported int
		received           int
		age                time.Duration
		peer               probe.Target
		saw                string // "" = nothing
	}{
		"recorded: none exported":  {bgp, 1, 0, 1, time.Minute, peer, "this node exports 0 of its 1 blocks to the peer; its BGPPeer uses BGPFilter tor-out"},
		"none imported, none sent": {bgp, 0, 1, 0, time.Minute, peer, "blocks: the peer sends no routes"},
		"none imported, some sent": {bgp, 0, 1, 3, time.Minute, peer, "a filter on this node drops the 3 routes"},
		"near: both":               {bgp, 1, 1, 1, time.Minute, peer, ""},
		"near: just established":   {bgp, 0, 0, 0, time.Second, peer, ""},
		"near: VXLAN":              {map[string]string{probe.AttrVXLAN: "Always"}, 0, 0, 0, time.Minute, peer, ""},
		"near: not to be exported": {map[string]string{probe.AttrVXLAN: "Never", probe.AttrNoExport: "true"}, 0, 0, 0,
			time.Minute, peer, ""},
		"near: a switch": {bgp, 0, 0, 0, time.Minute, probe.Target{Kind: probe.KindSession, Name: "tor"}, ""},
	} {
		p := &probe.Pass{Targets: []probe.Target{block("10.244.0.0/26", "a", true), block("10.244.1.0/26", "b", false),
			{Kind: probe.KindPool, Name: "10.244.0.0/16", Attrs: c.attrs}}}
		of := up
		of.Imported, of.Exported, of.Received = c.imported, c.exported, c.received
		r, ok := judgeExchange(node.Daemons()[0], p, of, c.peer, c.age)
		if ok != (c.saw != "") || !strings.Contains(r.Saw, c.saw) {
			t.Errorf("%s: %v %v", name, ok, r)
		}
	}
}
