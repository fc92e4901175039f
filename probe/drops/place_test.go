package drops

import (
	"errors"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/kernel"
)

// TestCalicoIsOnTheNode checks that a rule in a pod's own network, which the pod may have created and named, is never
// taken for Calico's.
func TestCalicoIsOnTheNode(t *testing.T) {
	t.Parallel()
	r := kernel.Refusal{Wall: kernel.WallNative, Family: "ip", Table: "calico", Chain: "filter-cali-pi-default.deny",
		At: 1, Text: "drop", For: "NetworkPolicy default/deny ingress", Counted: true}
	k := func(where string) Key { return Key{Where: where, Table: tableRule, Name: "1"} }
	c := Counts{home: Node, rules: map[Key]kernel.Refusal{k(Node): r, k("default/web"): r}}
	if d := c.death(k(Node), 17); d.Kind != KindPolicy || d.Policy != r.For {
		t.Errorf("on the node: %+v", d)
	}
	if d := c.death(k("default/web"), 17); d.Kind != KindRule || d.Policy != "" || strings.Contains(d.Place, "Calico") {
		t.Errorf("in a pod: %+v", d)
	}
}

// TestLostBeyond checks that a loss beyond the node is claimed only if no uncounted drop here is possible.
func TestLostBeyond(t *testing.T) {
	t.Parallel()
	const beyond = "they are lost beyond this node"
	for name, c := range map[string]struct {
		found Found
		says  string
	}{
		"beyond":             {Found{Left: true}, beyond},
		"uncounted rules":    {Found{Left: true, Uncounted: 2}, "or here without a counter; 2 rules that drop have no counter"},
		"not all read":       {Found{Left: true, Unread: errors.New("denied")}, "no readable counter here shows where"},
		"few":                {Found{Left: true, Few: true}, "less than half of a burst is too little to find the place"},
		"they did not leave": {Found{}, "no counter of this node shows where"},
	} {
		c.found.Packets, c.found.Lost, c.found.Device = 40, 40, "eth0"
		line := c.found.Lines(Shape{})[0]
		if !strings.Contains(line, c.says) || strings.Contains(line, beyond) != (c.says == beyond) ||
			c.found.Beyond() != (c.says == beyond) {
			t.Errorf("%s: %s", name, line)
		}
	}
}

// TestUnreadOnce checks that a read error is reported once, however often it occurred.
func TestUnreadOnce(t *testing.T) {
	t.Parallel()
	denied := errors.New("denied")
	var f Found
	for range 4 {
		f.unread(denied)
	}
	if f.unread(nil); f.Unread != denied {
		t.Error(f.Unread)
	}
}

// TestProhibited checks that a prohibit route is not also reported as a firewall: the kernel has the same error for
// both.
func TestProhibited(t *testing.T) {
	t.Parallel()
	sent := Sent{Packets: 17, Lost: 17, Refused: "denied"}
	route := routed{deaths: []Death{{Kind: KindRoute, Place: "a prohibit route rejects packets"}}}
	if got := kernelEvidence(Question{}, route, sent); len(got) != 1 || got[0].Kind != KindRoute {
		t.Errorf("%+v", got)
	}
	link := routed{deaths: []Death{{Kind: KindLink}}}
	if got := kernelEvidence(Question{}, link, sent); len(got) != 2 || got[1].Kind != KindFirewall || got[1].Count != 17 {
		t.Errorf("%+v", got)
	}
}
