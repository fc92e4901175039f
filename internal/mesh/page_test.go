package mesh

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestPage requires that the disconnected node is at fault, that nodes that only cannot reach it are not, and that a
// finding of two planes is listed once.
func TestPage(t *testing.T) {
	t.Parallel()
	const cut = 7
	nodes := cluster(20, 2)
	r := Report{Word: "fault"}
	for i, n := range nodes {
		m := Member{Name: n.Name, Zone: n.Zone}
		if i == 3 {
			m.Untested = "<b>no pod</b> could be started"
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
	if got := strings.Join(titles, "; "); got != "Between nodes: 38 of 380 paths fail; From nodes to pods on other nodes: 38 of 380 "+
		"paths fail; BGP sessions; BGP sessions, as reported by both ends: 38 of 380 are down; New paths: 0 of 380 paths fail" {
		t.Error(got)
	}
	var out bytes.Buffer
	err := page.Write(&out, p)
	if text := out.String(); err != nil || strings.Contains(text, "<b>no pod") || strings.Contains(text, "<i>") {
		t.Errorf("%v", err)
	}
}

// TestPageOfAll requires that a mesh without a working path is reported as such, not by its first node, and that no
// node is healthy.
func TestPageOfAll(t *testing.T) {
	t.Parallel()
	nodes, trials := cluster(6, 1), map[Path]Trial{}
	for _, p := range Paths(nodes) {
		trials[p] = Trial{From: nodes[p.From].Name, To: nodes[p.To].Name, Sent: 5, Failed: true, Saw: "nothing"}
	}
	r := Report{Word: "fault", Planes: []Plane{PlaneOf(PlanePod, nodes, trials)}}
	for _, n := range nodes {
		r.Nodes = append(r.Nodes, Member{Name: n.Name, Zone: n.Zone})
	}
	if got := r.sum(); got != "everywhere: 30 of 30 paths fail" {
		t.Error(got)
	}
	for _, n := range r.Page().Nodes {
		if n.Word != "fault" {
			t.Errorf("%+v", n)
		}
	}
}

// TestPageOfPeer requires that sessions with an external peer also count as evidence.
func TestPageOfPeer(t *testing.T) {
	t.Parallel()
	nodes := cluster(3, 1)
	var told []SessionReport
	r := Report{Word: "fault"}
	for i, n := range nodes {
		told = append(told, SessionReport{Node: i, Peer: netip.MustParseAddr("10.9.9.9"), Saw: "Idle"})
		r.Nodes = append(r.Nodes, Member{Name: n.Name})
	}
	r.Planes = []Plane{Sessions(nodes, told, nil, nil)}
	if p := r.Page(); len(p.Causes) != 1 || p.Causes[0].Name != "peer 10.9.9.9" || len(p.Causes[0].Evidence) != 3 ||
		p.Causes[0].Evidence[0].What != "bgp: n000 to 10.9.9.9" {
		t.Errorf("%+v", p.Causes)
	}
	b, err := json.Marshal(r.Planes[0].Findings[0].Paths[0])
	if err != nil || string(b) != `{"from":"n000","to":"10.9.9.9"}` {
		t.Errorf("%s, %v", b, err)
	}
}

// TestJSONIsBounded requires that a plane with too many paths keeps the failed paths, and reports how many are omitted.
func TestJSONIsBounded(t *testing.T) {
	t.Parallel()
	p := Plane{Name: PlaneBGP}
	for range maxTrials + 5 {
		p.Trials = append(p.Trials, Trial{From: "a", To: "b", Saw: "<up>"})
	}
	p.Trials[len(p.Trials)-1].Failed = true
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	must.Do(t, enc.Encode(p))
	var got Plane
	if err := json.Unmarshal(text.Bytes(), &got); err != nil || len(got.Trials) != maxTrials || got.More != 5 ||
		!got.Trials[0].Failed || len(p.Trials) != maxTrials+5 || !strings.Contains(text.String(), "<up>") {
		t.Errorf("%v: %d paths, %d more", err, len(got.Trials), got.More)
	}
}
