package mesh

import (
	"bytes"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/page"
)

// TestPage wants the node that is cut off to be at fault, those that only do not reach it not to be, and what two
// planes have found to be told once.
func TestPage(t *testing.T) {
	t.Parallel()
	const cut = 7
	nodes := cluster(20, 2)
	r := Report{Word: "fault"}
	for i, n := range nodes {
		m := Member{Name: n.Name, Zone: n.Zone}
		if i == 3 {
			m.Asked = "<b>no pod</b> could be started"
		}
		r.Nodes = append(r.Nodes, m)
	}
	for _, name := range []string{PlaneNode, PlanePod, PlaneBGP, "new"} {
		trials := map[Path]Trial{}
		for _, p := range Paths(nodes) {
			bad := name != "new" && (p.From == cut || p.To == cut)
			trials[p] = Trial{From: nodes[p.From].Name, To: nodes[p.To].Name, Sent: 5, Received: 5, Failed: bad,
				Saw: "<i>seen</i>"}
		}
		r.Planes = append(r.Planes, PlaneOf(name, nodes, trials))
	}
	p := r.Page()
	if len(p.Causes) != 1 || p.Causes[0].Name != "node n007" || len(p.Causes[0].Facts) != 3 ||
		len(p.Causes[0].Evidence) != 3*pageTrials {
		t.Errorf("%+v", p.Causes)
	}
	words := map[string]int{}
	for _, n := range p.Nodes {
		words[n.Word]++
		if (n.Word == "fault") != (n.Name == "n007") {
			t.Errorf("%+v", n)
		}
	}
	if words["not asked"] != 1 || words["healthy"] != 18 {
		t.Errorf("%v", words)
	}
	var titles []string
	for _, part := range p.Parts {
		titles = append(titles, part.Title)
		if m := part.Matrix; m != nil && len(m.Paths) != 20*19 {
			t.Errorf("%s has %d paths", part.Title, len(m.Paths))
		}
	}
	if got := strings.Join(titles, "; "); got != "Between nodes: 38 of 380 paths fail; From nodes to pods of others: 38 of 380 "+
		"paths fail; BGP sessions; BGP sessions, each as both ends tell it: 38 of 380 are down; New paths: 0 of 380 paths fail" {
		t.Error(got)
	}
	var out bytes.Buffer
	err := page.Write(&out, p)
	if text := out.String(); err != nil || strings.Contains(text, "<b>no pod") || strings.Contains(text, "<i>") {
		t.Errorf("%v", err)
	}
}
