package mesh

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

var update = flag.Bool("update", false, "write the golden files")

// reportOf is a report of two planes in which some paths fail.
func reportOf(nodes []Node, broken func(Path) bool) Report {
	r := Report{Word: "healthy", Elapsed: 12300 * time.Millisecond,
		Cluster: &probe.Cluster{Context: "production", Server: "https://10.0.0.1:6443"}}
	for _, n := range nodes {
		r.Nodes = append(r.Nodes, Member{Name: n.Name, Zone: n.Zone, Rack: n.Rack})
	}
	for _, name := range []string{PlaneNode, PlaneTCP} {
		trials := map[Path]Trial{}
		for _, p := range Paths(nodes) {
			t := Trial{From: nodes[p.From].Name, To: nodes[p.To].Name, Sent: 3, Received: 3, RTT: 1.2, Failed: broken(p)}
			if t.Failed {
				r.Word, t.Received, t.RTT = "fault", 0, 0
				t.Saw = "no answer to 3 pings of " + t.To + " within 3s: the packets leave by eth0, and nothing comes back"
			}
			trials[p] = t
		}
		r.Planes = append(r.Planes, PlaneOf(name, nodes, trials))
	}
	return r
}

// TestWrite compares reports at 80 columns with golden files. -update writes them.
func TestWrite(t *testing.T) {
	t.Parallel()
	none := func(Path) bool { return false }
	cut := func(p Path) bool { return p.From == 7 || p.To == 7 }
	zones := cluster(24, 4)
	for i := range zones {
		zones[i].Zone = "us-government-central-1" + zones[i].Zone
	}
	unfinished := reportOf(cluster(12, 2), cut)
	unfinished.Lacks = "it was stopped"
	some := reportOf(cluster(12, 2), none)
	some.Nodes[3].Untested = "no pod could be started on the node: the kubelet reports NetworkPluginNotReady, and gives no date"
	some.Planes[0].Silent = []string{"n003: BIRD does not answer on its socket, so the sessions of the node are unknown"}
	for name, r := range map[string]Report{
		"works": reportOf(cluster(12, 2), none), "node": reportOf(cluster(12, 2), cut), "zones": reportOf(zones, cut),
		"unfinished": unfinished, "silent": some,
	} {
		var out bytes.Buffer
		must.Do(t, r.Write(&out, 0))
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 && !strings.HasPrefix(line, "  next  ") {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		golden := filepath.Join("testdata", name+".golden")
		if *update {
			must.Do(t, os.WriteFile(golden, out.Bytes(), 0o644))
		}
		if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(want, out.Bytes()) {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
}

// TestSum requires the findings before the reason for an incomplete run, and that each place counts once.
func TestSum(t *testing.T) {
	t.Parallel()
	cut := func(p Path) bool { return p.From == 7 || p.To == 7 }
	r := reportOf(cluster(12, 2), cut)
	r.Lacks = "it was stopped"
	const want = "node n007: 22 of 22 paths that begin or end there fail; the run did not finish: it was stopped"
	if got := r.sum(); got != want {
		t.Error(got)
	}
	if got := (Report{Lacks: "it was stopped"}).sum(); got != "the run did not finish: it was stopped" {
		t.Error(got)
	}
	// A plane of which only one direction fails, and a name with a colon.
	names := []string{"a: b", "c"}
	r = Report{Planes: []Plane{
		{Name: PlaneNode, Findings: []Finding{{Kind: KindPair, Names: names, Failed: 2, Of: 2}}},
		{Name: PlaneTCP, Findings: []Finding{{Kind: KindPair, Names: names, Failed: 1, Of: 2}}},
	}}
	if got := r.sum(); got != "between a: b and c: 2 of 2 paths fail" {
		t.Error(got)
	}
	facts := r.Page().Causes[0].Facts
	if len(r.Page().Causes) != 1 || facts[1].Value != "from a: b to c: 1 of 2 paths fail" {
		t.Errorf("%+v", r.Page().Causes)
	}
	other := Finding{Kind: KindPair, Names: []string{"a: d", "c"}}
	r.Planes = append(r.Planes, Plane{Findings: []Finding{other}})
	if got := r.sum(); !strings.HasSuffix(got, ", and 1 more") {
		t.Error(got)
	}
}

// TestNext requires that the command selects the nodes of a finding.
func TestNext(t *testing.T) {
	t.Parallel()
	var nodes []Member
	for i := range 12 {
		nodes = append(nodes, Member{Name: fmt.Sprint("n", i), Zone: "b", Rack: fmt.Sprint("r", i%2)})
	}
	for _, c := range []struct {
		f    Finding
		want string
	}{
		{Finding{Kind: KindNode, Names: []string{"n7"}}, "n7"},
		{Finding{Kind: KindPair, Names: []string{"n7", "n2"}}, "n2,n7"},
		{Finding{Kind: KindPair, Names: []string{"n7", "10.9.9.9"}}, "n7"},
		{Finding{Kind: kindRack, Names: []string{"r1", "b"}}, "n1,n3,n5,n7,n9"},
		{Finding{Kind: kindRack, Names: []string{"r1", "a"}}, "--all-nodes"},
		{Finding{Kind: kindZone, Names: []string{"b"}}, "-l topology.kubernetes.io/zone=b"},
		{Finding{Kind: kindZone, Names: []string{"b; reboot"}}, "-l 'topology.kubernetes.io/zone=b; reboot'"},
		{Finding{Kind: kindZones, Names: []string{"a", "b"}}, "-l 'topology.kubernetes.io/zone in (a,b)'"},
		{Finding{Kind: kindPeer, Names: []string{"10.9.9.9"},
			Paths: []Ends{{"n3", "10.9.9.9"}, {"n4", "10.9.9.9"}}}, "n3,n4"},
		{Finding{Kind: kindAll}, "--all-nodes"},
	} {
		r := Report{Nodes: slices.Clone(nodes), Planes: []Plane{{}, {Findings: []Finding{c.f}}}}
		if got := r.next(); got != "calico-probe run "+c.want {
			t.Errorf("%+v: %s", c.f, got)
		}
	}
	if got := (Report{Nodes: nodes, Planes: []Plane{{}}}).next(); got != "" {
		t.Error(got)
	}
}
