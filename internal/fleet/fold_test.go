package fleet

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestRecordedFleets replays runs of two nodes with one fault, made on a cluster: TCP 179 dropped on node-b, a wrong
// permanent ARP entry on node-b, a dead kubelet on node-b, and a policy that closes the DNS. Each is one group.
func TestRecordedFleets(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{ // the report's first line, and its last ones
		"bgp-dropped": {"between node-a and node-b: BGP packets (TCP 179)", "fault between node-a and node-b: BGP",
			"[bgp-filtered, high]; 2 faulty ("},
		"wrong-arp": {"node-b: packets for another node go to the wrong MAC address", "fault on node-b: packets for another",
			"[neighbour-wrong, high]; 1 faulty, 1 affected by another node's fault ("},
		"dead-node": {"node-b: the kubelet has stopped reporting", "fault on node-b: the kubelet has stopped",
			"[kubelet-silent, medium]; 1 faulty, 1 affected by another node's fault ("},
		"dns-policy": {"2 of 2 nodes: a network policy blocks queries to the cluster DNS", "fault on 2 of 2 nodes: a network",
			"[dns-closed-by-policy, high]; 2 faulty ("},
	} {
		b := must.Get(os.ReadFile(filepath.Join("testdata", name+".ndjson")))(t)
		saved := must.Get(report.Load(bytes.NewReader(b)))(t)
		f := must.Get(report.Find(report.Formats(), "table"))(t)
		var out bytes.Buffer
		sink := must.Get(f.Sink(&out, report.Options{Fleet: true}))(t)
		if err := Replay(saved, sink); err != ui.Exit(report.ExitFault) {
			t.Errorf("%s: %v", name, err)
		}
		text := strings.Join(strings.Fields(out.String()), " ")
		if !strings.HasPrefix(text, want[0]) || !strings.Contains(text, want[1]) || !strings.Contains(text, want[2]) ||
			!strings.Contains(text, "; cluster sandbox)") {
			t.Errorf("%s: want %q in\n%s", name, want, out.String())
		}
	}
}

// TestPolicyOfEach requires that the effect of policies is checked for each of several nodes, as for one node.
func TestPolicyOfEach(t *testing.T) {
	t.Parallel()
	opts := options()
	opts.Via = examine.ViaAuto
	picked := must.Get(opts.Picked())(t)
	for _, id := range []string{facts.CheckDNSPolicies, facts.CheckAPIPolicies, facts.CheckDNSService} {
		if !slices.Contains(picked, id) {
			t.Errorf("%s is not checked", id)
		}
	}
}

// TestProvenLeads requires that a proven cause absorbs its neighbours' symptoms, and never the reverse.
func TestProvenLeads(t *testing.T) {
	t.Parallel()
	cause := func(id, about string, c probe.Confidence, seen ...probe.Result) probe.Cause {
		out := probe.Cause{ID: id, About: about, Confidence: c}
		for _, r := range append(seen, lost("bgp-port", strings.Split(about, " ")[0])) {
			out.For = append(out.For, probe.Clue{Check: r.Check, Target: r.Target, Status: r.Status, Saw: r.Saw})
		}
		return out
	}
	service := lost("service-clusterip", "")
	broken := probe.Cause{ID: "service-path-broken", Confidence: probe.Medium,
		For: []probe.Clue{{Check: service.Check, Status: probe.Fail, Saw: service.Saw}}}
	node := func(name string, causes []probe.Cause, bad ...probe.Result) judged {
		return judged{name: name, causes: causes, bad: bad}
	}
	pair := func(about string, seen ...probe.Result) []probe.Cause {
		return []probe.Cause{cause("bgp-filtered", about+" 10.0.0.1", probe.High, seen...)}
	}
	rule := lost("node-state", "")
	for name, c := range map[string]struct {
		all  []judged
		want []string // in this order: CAUSE[NODES]BETWEEN
	}{
		"a symptom of the other end": {[]judged{
			node("a", []probe.Cause{broken}, service, lost("bgp-session", "b"), lost("pod-ping", "b")),
			node("b", pair("a"))}, []string{"bgp-filtered[b][a b]"}},
		"near: a symptom that nothing ties to it": {[]judged{node("a", []probe.Cause{broken}, service), node("b", pair("a"))},
			[]string{"bgp-filtered[b][a b]", "service-path-broken[a][]"}},
		"both ends": {[]judged{node("a", pair("b")), node("b", pair("a"))}, []string{"bgp-filtered[a b][a b]"}},
		"the end with the rule": {[]judged{node("a", pair("b")), node("b", pair("a", rule))},
			[]string{"bgp-filtered[b][]"}},
		"the end that more nodes agree with": {[]judged{node("a", pair("b")),
			node("b", slices.Concat(pair("a"), pair("c"), pair("d"))), node("c", pair("b")), node("d", pair("b"))},
			[]string{"bgp-filtered[b][]"}},
		"near: one more node, which may be hostile": {[]judged{node("a", pair("b")),
			node("b", append(pair("a"), pair("c")...)), node("c", pair("b"))}, []string{"bgp-filtered[a b c][]"}},
		"near: more nodes that only accuse": {[]judged{node("a", pair("b")), node("b", pair("a")), node("c", pair("b")),
			node("d", pair("b"))}, []string{"bgp-filtered[a b c d][]"}},
		"near: the end that says less": {[]judged{node("a", pair("b", lost("bgp-session", "b"))), node("b", pair("a"))},
			[]string{"bgp-filtered[a b][a b]"}},
		"near: two pairs": {[]judged{node("a", pair("b")), node("b", pair("a")), node("c", pair("d")), node("d", pair("c"))},
			[]string{"bgp-filtered[a b c d][]"}},
		"a fault here that is about the other": {[]judged{node("a", []probe.Cause{
			cause("peer-nodeports", "b", probe.Medium), {ID: "dns-down", Confidence: probe.Low}}),
			node("b", []probe.Cause{cause("neighbour-wrong", "a", probe.High)})},
			[]string{"neighbour-wrong[b][]", "dns-down[a][]"}},
		"a fault of its own at the other end": {[]judged{node("a", pair("b")),
			node("b", []probe.Cause{cause("address-second-nic", "IPv4", probe.High)})}, []string{"address-second-nic[b][]"}},
		"near: what breaks later": {[]judged{node("a", []probe.Cause{broken}, service),
			node("b", []probe.Cause{{ID: "address-will-change", Confidence: probe.High,
				For: []probe.Clue{{Status: probe.Warn}}}})},
			[]string{"service-path-broken[a][]", "address-will-change[b][]"}},
	} {
		var got []string
		for _, g := range group(c.all) {
			got = append(got, g.Cause+fmt.Sprint(g.Nodes)+fmt.Sprint(g.Between))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestProofStays requires that the node with the packet-dropping rule is named with that rule, regardless of a third
// node's reports about the other end.
func TestProofStays(t *testing.T) {
	t.Parallel()
	of := func(about string, more ...probe.Clue) probe.Cause {
		return probe.Cause{ID: "bgp-filtered", About: about + " 10.0.0.1", Confidence: probe.High,
			For: append(more, probe.Clue{Check: "bgp-port", Status: probe.Fail})}
	}
	b := judged{name: "b", causes: []probe.Cause{of("a", probe.Clue{Check: "node-state", Saw: "the rule"})}}
	m := judged{name: "m", causes: []probe.Cause{of("a")}}
	for name, about := range map[string][]probe.Cause{
		"m is silent": {of("b")}, "m drops packets": {of("b"), of("m")},
	} {
		all := []judged{{name: "a", causes: about}, b, m}
		if name == "m is silent" {
			all[2] = judged{name: "m"}
		}
		got := group(all)
		if len(got) != 1 || got[0].Example.Node != "b" || !slices.Contains(got[0].Nodes, "b") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// lost is a check that got no answer from a node, "" = it names none.
func lost(check, node string) probe.Result {
	r := probe.Found(probe.Fail, "no answer").On(node)
	r.Check = check
	if node != "" {
		r = r.With(probe.FactNode, node)
	}
	return r
}
