package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestWitnesses requires that findings about another node are listed with that node's fault, or alone if it has none.
func TestWitnesses(t *testing.T) {
	t.Parallel()
	cause := func(id, about string) probe.Cause {
		return probe.Cause{ID: id, About: about, Confidence: probe.High, For: []probe.Clue{{Status: probe.Fail}}}
	}
	got := group([]judged{
		{name: "a", causes: []probe.Cause{cause("peer-pods", "b")}},
		{name: "b", causes: []probe.Cause{cause("peer-pods", "a"), cause("forwarding-off", "")}},
		{name: "c", causes: []probe.Cause{cause("peer-pods", "b")}},
		{name: "d", causes: []probe.Cause{cause("peer-pods", "e")}},
		{name: "e", causes: []probe.Cause{cause("peer-pods", "d")}},
	})
	if len(got) != 2 || got[0].Cause != "peer-pods" || !slices.Equal(got[0].Nodes, []string{"b", "d", "e"}) ||
		got[1].Cause != "forwarding-off" || !slices.Equal(got[1].Nodes, []string{"b"}) {
		t.Fatalf("%+v", got)
	}
	want := []probe.Witness{{Node: "a", Cause: "peer-pods", About: "b"}, {Node: "c", Cause: "peer-pods", About: "b"}}
	if !slices.Equal(got[1].Witnesses, want) {
		t.Errorf("witnesses: %+v", got[1].Witnesses)
	}
}

// TestNoAnswer requires the reason why a node did not answer, if no cause contains it.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	none := probe.Found(probe.Unknown, "the kubelet refuses its log")
	none.Check = probe.CheckAnswered
	n := judged{name: "a", bad: []probe.Result{none}, verdict: probe.Verdict{Word: report.WordIncomplete}}
	got := group([]judged{n, {name: "b"}})
	if len(got) != 1 || got[0].Check != none.Check || got[0].Example.Result.Saw != none.Saw {
		t.Errorf("%+v", got)
	}
	n.causes = []probe.Cause{{ID: "kubelet-silent", Confidence: probe.Medium}}
	if got = group([]judged{n}); len(got) != 1 || got[0].Cause != "kubelet-silent" {
		t.Errorf("beside a cause: %+v", got)
	}
}

// TestSymptoms requires that a healthy node's failed checks, and their consequences, are folded into the fault of the
// node that they name. Other results must stay.
func TestSymptoms(t *testing.T) {
	t.Parallel()
	toward := func(check, node string) probe.Result {
		r := probe.Found(probe.Fail, "no answer").On(node)
		r.Check = check
		if node != "" {
			r = r.With(probe.FactNode, node)
		}
		return r
	}
	unready := toward("calico-pod", "")
	node := func(name string, causes []probe.Cause, bad ...probe.Result) judged {
		n := judged{name: name, causes: causes, bad: bad}
		for _, r := range bad {
			n.verdict.Unexplained = append(n.verdict.Unexplained, r.Check)
		}
		return n
	}
	cause := func(id, about string, c probe.Confidence) []probe.Cause {
		return []probe.Cause{{ID: id, About: about, Confidence: c, For: []probe.Clue{{Status: probe.Fail}}}}
	}
	lost := []probe.Result{toward("bgp-session", "node-b"), toward("node-ping", "node-b"), toward("pod-ping", "node-b"),
		toward("pod-tcp", "node-b"), toward("service-clusterip", ""), unready}
	third := []probe.Result{toward("bgp-session", "node-c")}
	for name, c := range map[string]struct {
		all       []judged
		want      []string // CAUSE or CHECK, and its nodes
		witnesses int
	}{
		"the wrong address of node-b": {[]judged{node("node-a", nil, lost...),
			node("node-b", cause("address-second-nic", "IPv4", probe.High))}, []string{"address-second-nic[node-b]"}, 6},
		"BIRD on node-b": {[]judged{node("node-a", cause("peer-bird-dead", "node-b 10.0.0.2", probe.Medium)),
			node("node-b", cause("bird-dead", "", probe.High))}, []string{"bird-dead[node-b]"}, 1},
		"near: a third node": {[]judged{node("node-a", nil, slices.Concat(lost, third)...),
			node("node-b", cause("bird-dead", "", probe.High)), node("node-c", nil, toward("bgp-session", "node-b"))},
			[]string{"bird-dead[node-b]", "bgp-session[node-a]"}, 7},
		"near: one witness of three": {[]judged{node("node-a", nil, toward("node-ping", "node-b"),
			toward("bgp-session", "node-b"),
			toward("dns-cluster", "")), node("node-b", cause("bird-dead", "", probe.High)), node("node-c", nil)},
			[]string{"bird-dead[node-b]", "dns-cluster[node-a]"}, 2},
		"near: one witness of DNS each": {[]judged{node("node-a", nil, toward("node-ping", "node-b"), toward("dns-cluster", "")),
			node("node-b", cause("bird-dead", "", probe.High)), node("node-c", nil, toward("dns-cluster", ""))},
			[]string{"bird-dead[node-b]", "dns-cluster[node-a node-c]"}, 1},
		"near: nothing names it": {[]judged{node("node-a", nil, toward("service-clusterip", "")),
			node("node-b", cause("bird-dead", "", probe.High))},
			[]string{"service-clusterip[node-a]", "bird-dead[node-b]"}, 0},
		"near: a cause that is worth a look": {[]judged{node("node-a", nil, toward("node-ping", "node-b")),
			node("node-b", cause("node-slow", "", probe.Low))}, []string{"node-ping[node-a]", "node-slow[node-b]"}, 0},
		"near: not by any path": {[]judged{node("node-a", nil, toward("node-ping", "node-b"), toward("node-load", "")),
			node("node-b", cause("bird-dead", "", probe.High))}, []string{"bird-dead[node-b]", "node-load[node-a]"}, 1},
	} {
		var got []string
		witnesses := 0
		for _, g := range group(c.all) {
			got = append(got, g.Cause+g.Check+fmt.Sprint(g.Nodes))
			witnesses += len(g.Witnesses)
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) || witnesses != c.witnesses {
			t.Errorf("%s: %v and %d witnesses, want %v and %d", name, got, witnesses, c.want, c.witnesses)
		}
	}
}

// TestOrder requires the same groups, with the same examples, in any order of finished nodes.
func TestOrder(t *testing.T) {
	t.Parallel()
	var all []judged
	for i := range 20 {
		n := judged{name: fmt.Sprintf("node-%02d", i), attributes: []string{fmt.Sprintf("zone=%d", i%3)}}
		n.causes = []probe.Cause{{ID: fmt.Sprintf("cause-%d", i%2), Confidence: probe.High}}
		n.bad = []probe.Result{{Check: "felix-live", Saw: n.name}}
		n.verdict.Unexplained = []string{"felix-live"}
		all = append(all, n)
	}
	want := must.Get(json.Marshal(group(all)))(t)
	slices.Reverse(all)
	if got, err := json.Marshal(group(all)); err != nil || string(got) != string(want) {
		t.Errorf("%v\n%s\n%s", err, got, want)
	}
}

// TestManyWitnesses requires that a dead node does not make a group as large as the cluster.
func TestManyWitnesses(t *testing.T) {
	t.Parallel()
	all := []judged{{name: "dead", causes: []probe.Cause{{ID: "kubelet-silent"}}}}
	for i := range 1000 {
		all = append(all, judged{name: fmt.Sprintf("node-%03d", i), causes: []probe.Cause{{ID: "peer-pods", About: "dead"}}})
	}
	got := group(all)
	if len(got) != 1 || len(got[0].Witnesses) != maxWitnesses || got[0].MoreWitnesses != 1000-maxWitnesses {
		t.Errorf("%d groups: %d witnesses and %d more", len(got), len(got[0].Witnesses), got[0].MoreWitnesses)
	}
	if n := len(got[0].Affected["dead"]); n != 1000 {
		t.Errorf("%d affected nodes", n)
	}
}

// TestAffected lists each node with only symptoms once, and no node that has a fault.
func TestAffected(t *testing.T) {
	t.Parallel()
	cause := func(id, about string) probe.Cause {
		return probe.Cause{ID: id, About: about, Confidence: probe.High, For: []probe.Clue{{Status: probe.Fail}}}
	}
	got := group([]judged{
		{name: "a", causes: []probe.Cause{cause("peer-bird-dead", "b 10.0.0.2"), cause("peer-pods", "c")}},
		{name: "b", causes: []probe.Cause{cause("bird-dead", ""), cause("peer-pods", "c")}},
		{name: "c", causes: []probe.Cause{cause("forwarding-off", "")}},
		{name: "d"},
	})
	var names []string
	for _, g := range got {
		for of, nodes := range g.Affected {
			names = append(names, fmt.Sprint(g.Cause, " ", of, nodes))
		}
	}
	if !slices.Equal(names, []string{"bird-dead b[a]"}) {
		t.Errorf("%q", names)
	}
}

// TestOneDeadOfMany requires one fault, and that all other nodes count as affected, on a terminal and on a page.
func TestOneDeadOfMany(t *testing.T) {
	t.Parallel()
	const size = 5000
	failed := probe.Found(probe.Fail, "no answer").On("dead").With(probe.FactNode, "dead")
	failed.Check = "node-ping"
	all := []judged{{name: "dead", causes: []probe.Cause{{ID: "kubelet-silent", Confidence: probe.High}}}}
	for i := range size - 1 {
		n := judged{name: fmt.Sprintf("node-%04d", i), bad: []probe.Result{failed}}
		n.verdict.Unexplained = []string{failed.Check}
		all = append(all, n)
	}
	for _, format := range []string{"table", "wide", "html"} {
		f := must.Get(report.Find(report.Formats(), format))(t)
		var out bytes.Buffer
		sink := must.Get(f.Sink(&out, report.Options{Fleet: true}))(t)
		for i := range all {
			v := all[i].verdict
			v.Word, v.Exit = report.WordFault, report.ExitFault
			all[i].verdict = v
			must.Do(t, sink.Event(probe.Event{Type: probe.EventVerdict, Node: all[i].name, Verdict: &v}))
		}
		if err := conclude(all, sink, time.Second, false); !errors.Is(err, ui.Exit(report.ExitFault)) {
			t.Fatal(err)
		}
		text := regexp.MustCompile(`(?s)<[^>]*>`).ReplaceAllString(out.String(), "")
		text = strings.Join(strings.Fields(text), " ")
		if !strings.Contains(text, "1 fault") || !strings.Contains(text, "4999 affected") {
			t.Errorf("%s: %.2000s", format, text)
		}
		if at := strings.LastIndex(text, "affected by dead: node-ping"); format != "table" && at < 0 {
			t.Errorf("%s: %.2000s", format, text)
		}
	}
}

// TestNewNodesFirst has one node with more causes than a report shows, and another one with a single cause.
func TestNewNodesFirst(t *testing.T) {
	t.Parallel()
	cause := func(id string) probe.Cause {
		return probe.Cause{ID: id, Confidence: probe.High, For: []probe.Clue{{Status: probe.Fail}}}
	}
	loud := judged{name: "a"}
	for i := range 10 {
		loud.causes = append(loud.causes, cause(fmt.Sprintf("cause-%d", i)))
	}
	got := group([]judged{loud, {name: "b", causes: []probe.Cause{cause("forwarding-off")}}})
	if len(got) != 11 || got[0].Nodes[0] != "a" || got[1].Cause != "forwarding-off" {
		t.Errorf("%+v", got)
	}
}

// TestGroupingCrashes requires that nodes are reported although grouping crashes, and that the fleet is incomplete.
func TestGroupingCrashes(t *testing.T) {
	t.Parallel()
	f := must.Get(report.Find(report.Formats(), "json"))(t)
	var out bytes.Buffer
	sink := must.Get(f.Sink(&out, report.Options{Fleet: true}))(t)
	// which no file and no API gives
	twice := []judged{{name: "a", causes: []probe.Cause{{ID: "x"}, {ID: "y"}}}, {name: "a"}}
	if err := conclude(twice, sink, time.Second, false); !errors.Is(err, ui.Exit(report.ExitIncomplete)) {
		t.Errorf("%v", err)
	}
	if !strings.Contains(out.String(), "the nodes' common causes are unknown: grouping crashed") {
		t.Error(out.String())
	}
}
