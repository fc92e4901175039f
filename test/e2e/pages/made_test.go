//go:build e2e

package pages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/fleet"
	"github.com/calico-probe/calico-probe/internal/mesh"
	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// cluster is the cluster shown on the pages.
var cluster = &probe.Cluster{Context: "prod-eu", Server: "https://10.0.0.1:6443"}

var begun = time.Date(2026, 11, 21, 2, 13, 7, 0, time.UTC)

// nameOf and zoneOf are those of the nodes of a cluster.
func nameOf(i int) string { return fmt.Sprintf("worker-%04d", i) }
func zoneOf(i int) string { return []string{"eu-1a", "eu-1b", "eu-1c"}[i%3] }

// recorded are the events of a run on node-b that was recorded, and of nothing else.
func recorded(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Ext(name) != ".txtar" {
		return b
	}
	for _, f := range txtar.Parse(b).Files {
		if f.Name == "stream" {
			return f.Data
		}
	}
	t.Fatalf("%s has no stream", name)
	return nil
}

// played returns the recorded events under other names of node and peer.
func played(t testing.TB, stream []byte, name, peer string) []probe.Event {
	t.Helper()
	text := strings.NewReplacer("node-b", name, "node-a", peer).Replace(string(stream))
	var out []probe.Event
	for line := range strings.Lines(text) {
		var ev probe.Event
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatal(err)
		}
		if ev.Result != nil && ev.Node == name {
			out = append(out, ev)
		}
	}
	return out
}

// faults are the runs that nodes of a fleet may have had: one of so many nodes, of one zone or any.
var faults = []struct {
	file string
	of   int
	zone string
}{
	{"docs/example.ndjson", 13, "eu-1b"}, {"bird-dead", 59, ""},
	{"bgp-port-dropped", 179, ""},
}

// fleetPage is the page of a fleet, made by the code that concludes and reports fleets.
func fleetPage(t testing.TB, nodes int) []byte {
	t.Helper()
	saved := report.Saved{Fleet: &probe.Start{V: 1, Version: probe.Release, Run: "7f3a", Time: begun, Cluster: cluster},
		Elapsed: 41 * time.Second}
	well := probe.Found(probe.OK, "Ready for 41d")
	well.Check = "node-ready"
	for i := range nodes {
		run := report.Run{Node: nameOf(i), Version: probe.Release}
		start := *saved.Fleet
		start.Attributes = []string{"zone=" + zoneOf(i), fmt.Sprintf("kernel=6.1.%d", i%4)}
		run.Add(probe.Event{Type: probe.EventRun, Node: run.Node, Start: &start})
		run.Add(probe.Event{Type: probe.EventStart, Node: run.Node, Method: "api", Start: &start})
		events := []probe.Event{{Type: probe.EventResult, Node: run.Node, Method: "api", Result: &well}}
		for _, f := range faults {
			if (i+1)%min(f.of, nodes) == 0 && (nodes < 10 || f.zone == "" || f.zone == zoneOf(i) && i < 3*f.of*50) {
				events = played(t, recorded(t, f.file), run.Node, nameOf((i+3)%nodes))
				break
			}
		}
		for _, ev := range events {
			run.Add(ev)
		}
		run.Add(probe.Event{Type: probe.EventEnd, Node: run.Node, Method: "api", End: &probe.End{}})
		run.Verdict = &probe.Verdict{Elapsed: time.Duration(900+i*37%1500) * time.Millisecond}
		saved.Runs = append(saved.Runs, run)
	}
	var out bytes.Buffer
	f, err := report.Find(report.Formats(), "html")
	if err != nil {
		t.Fatal(err)
	}
	sink, err := f.Sink(&out, report.Options{Fleet: true})
	if err == nil {
		err = fleet.Replay(saved, sink)
	}
	if err != nil && !errors.As(err, new(ui.Exit)) {
		t.Fatal(err)
	}
	return out.Bytes()
}

// meshPage is the page of a mesh with one node that is cut off, a pair, and a zone that pods do not get into; its
// sessions are those of three route reflectors, or of a full mesh of few nodes.
func meshPage(t testing.TB, nodes int) []byte {
	t.Helper()
	var members []mesh.Node
	r := mesh.Report{V: 1, Kind: mesh.KindReport, Version: probe.Release, Run: "7f3a", Cluster: cluster, Time: begun,
		Word: report.WordFault, Exit: report.ExitFault, Elapsed: 19 * time.Second}
	for i := range nodes {
		members = append(members, mesh.Node{Name: nameOf(i), Zone: zoneOf(i)})
		r.Nodes = append(r.Nodes, mesh.Member{Name: nameOf(i), Zone: zoneOf(i)})
	}
	if nodes > 10 {
		r.Nodes[nodes-2].Untested = "no probe could be started: 0/1 nodes are available"
	}
	cut := nodes / 2
	paths := mesh.Paths(members)
	for _, plane := range []string{"node", "pod"} {
		trials := map[mesh.Path]mesh.Trial{}
		for _, p := range paths {
			bad := p.From == cut || p.To == cut || nodes > 10 && p == mesh.Path{From: 1, To: 2}
			bad = bad || plane == "pod" && nodes > 10 && zoneOf(p.From) != zoneOf(p.To) &&
				(zoneOf(p.From) == "eu-1c" || zoneOf(p.To) == "eu-1c")
			trial := mesh.Trial{From: nameOf(p.From), To: nameOf(p.To), Sent: 5, Received: 5, Failed: bad,
				RTT: 0.2 + float64((p.From*31+p.To*17)%90)/100, Saw: "5 of 5 packets came back"}
			if bad {
				trial.Received, trial.RTT, trial.Saw = 0, 0, "none of 5 packets came back"
			} else if (p.From*p.To)%977 == 5 {
				trial.Received, trial.Saw = 4, "4 of 5 packets came back"
			}
			trials[p] = trial
		}
		r.Planes = append(r.Planes, mesh.PlaneOf(plane, members, trials))
	}
	r.Planes = append(r.Planes, mesh.PlaneOf("bgp", members, sessions(nodes, cut)))
	var out bytes.Buffer
	if err := page.Write(&out, r.Page()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// sessions are those of BGP, as each end tells them.
func sessions(nodes, cut int) map[mesh.Path]mesh.Trial {
	out := map[mesh.Path]mesh.Trial{}
	add := func(from, to int) {
		t := mesh.Trial{From: nameOf(from), To: nameOf(to), Sent: 1, Received: 1, Saw: "Established for 41d"}
		if from == cut || to == cut {
			t.Received, t.Failed, t.Saw = 0, true, "start Connect for 9m"
		}
		out[mesh.Path{From: from, To: to}] = t
	}
	reflectors := nodes
	if nodes > 16 {
		reflectors = 3
	}
	for i := range nodes {
		for r := range reflectors {
			if i != r {
				add(i, r)
				add(r, i)
			}
		}
	}
	return out
}

// nodePage is the page of the run that the README shows.
func nodePage(t testing.TB) []byte { t.Helper(); return saved(t, "html") }

// saved is that run in a format.
func saved(t testing.TB, format string) []byte {
	t.Helper()
	all, err := report.Load(bytes.NewReader(recorded(t, "docs/example.ndjson")))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	sink, err := report.New(format, &out, false)
	if err != nil {
		t.Fatal(err)
	}
	c, err := examine.Replay(all.Runs[0], sink)
	if err == nil {
		err = c.Conclude()
	}
	if err != nil && !errors.As(err, new(ui.Exit)) {
		t.Fatal(err)
	}
	return out.Bytes()
}
