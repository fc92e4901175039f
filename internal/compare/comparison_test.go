package compare

import (
	"fmt"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
)

func TestComparison(t *testing.T) {
	t.Parallel()
	f := diagnose.Findings{Node: "node-b"}
	add := func(node, check, target string, s probe.Status, saw string, facts probe.Facts) {
		f.Add(probe.Event{Type: probe.EventResult, Node: node, Method: "pod",
			Result: &probe.Result{Check: check, Target: target, Status: s, Saw: saw, Facts: facts}})
	}
	add("node-b", "node-swap", "", probe.Fail, "swap is on", nil)
	add("node-b", "pod-mtu", "default/x 10.1.1.1", probe.Fail, "1500 bytes do not pass", nil)
	add("node-b", "pod-ping", "default/x 10.1.1.1", probe.Fail, "none of 5", nil)
	add("node-b", "node-load", "", probe.OK, "load 1", nil)
	add("node-b", "bgp-session", "node-a 10.0.0.1", probe.Fail, "start Passive for 2h",
		probe.Facts{probe.FactNode: "node-a", probe.FactFamily: 4, bgp.FactState: "start",
			bgp.FactBGPState: "Passive"})
	add("node-b", "bgp-session", "/run/calico/bird6.ctl", probe.Unknown, "no listener",
		probe.Facts{probe.FactFamily: 6})
	if got := Nodes(f); got != nil {
		t.Errorf("without a peer: %q", got)
	}
	add("node-a", "probe-placed", "neighbour", probe.Unknown, "no right", nil)
	if got := Nodes(f); got != nil {
		t.Errorf("a peer without an answer: %q", got)
	}
	add("node-a", "node-swap", "", probe.OK, "no swap", nil)
	add("node-a", "pod-mtu", "default/y 10.1.2.1", probe.Fail, "1400 bytes do not pass", nil)
	add("node-a", "pod-ping", "default/y 10.1.2.1", probe.OK, "5 of 5", nil)
	add("node-a", "pod-ping", "default/b 10.1.3.1", probe.Fail, "none of 5", probe.Facts{probe.FactNode: "node-b"})
	add("node-a", "bgp-session", "node-b 10.0.0.2", probe.Fail, "Connect",
		probe.Facts{probe.FactNode: "node-b", probe.FactFamily: 4, bgp.FactState: "start",
			bgp.FactBGPState: "Connect", bgp.FactLastError: "Socket: Connection refused"})
	add("node-a", "bgp-session", "node-b fd00::2", probe.OK, "Established",
		probe.Facts{probe.FactNode: "node-b", probe.FactFamily: 6, bgp.FactState: "up",
			bgp.FactBGPState: "Established"})
	for target, reason := range map[string]string{"node-b 10.0.0.2 icmp": "", "node-b fd00::2 icmp": "",
		"node-b 10.0.0.2 tcp 179": "refused"} {
		r := probe.OK
		if reason != "" {
			r = probe.Fail
		}
		add("node-a", "neighbour-reach", target, r, "x", probe.Facts{probe.FactReason: reason})
	}
	add("node-a", "neighbour-reach", "node-b fd00::2 tcp 179", probe.OK, "x", nil)
	add("node-a", "neighbour-reach", "node-b 10.0.0.2 tcp 10250", probe.OK, "x", probe.Facts{link.FactSpeaks: false})
	want := `compared with baseline node node-a:
node-swap          ok on node-a: no swap
pod-mtu            also failing on node-a: default/y 10.1.2.1 1400 bytes do not pass
pod-ping           node-a fails only towards node-b: default/b 10.1.3.1 none of 5
node-b seen from node-a: answers icmp; accepts connections, but answers no request: tcp 10250; no answer: tcp 179 of 10.0.0.2 (refused)
BGP IPv4  node-b to node-a: start Passive | node-a to node-b: start Connect, Socket: Connection refused
BGP IPv6  node-b to node-a: BIRD does not answer | node-a to node-b: Established`
	if got := strings.Join(Nodes(f), "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	for i := range 30 { // a night on which everything is bad stays short
		id := fmt.Sprintf("check-%d", i)
		add("node-b", id, "", probe.Fail, "bad", nil)
		add("node-a", id, "", probe.OK, "good", nil)
	}
	if got := Nodes(f); len(got) > 12 {
		t.Errorf("%d lines", len(got))
	}
}
