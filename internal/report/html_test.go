package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// asText wants a page to have a text, and nothing that a text made: no element, no attribute and no link of its own.
func asText(t *testing.T, said, page string) {
	t.Helper()
	root := must.Get(html.Parse(strings.NewReader(page)))(t)
	found := 0
	for n := range root.Descendants() {
		switch n.Type {
		case html.CommentNode:
			t.Errorf("%q makes a comment", said)
		case html.TextNode:
			if strings.Contains(n.Data, printable(said)) || strings.Contains(n.Data, strings.TrimSpace(printable(said))) {
				found++
			}
		case html.ElementNode:
			if slices.Contains([]string{"img", "iframe", "a", "link", "base", "form", "object", "embed", "testcase"}, n.Data) &&
				!(n.Data == "form" && n.Attr[0].Val == "dialog") {
				t.Errorf("%q makes <%s>", said, n.Data)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "href" || a.Key == "src" || a.Key == "style" {
					t.Errorf("%q makes the attribute %s", said, a.Key)
				}
			}
		}
	}
	if found < 3 {
		t.Errorf("%q stands in %d texts", said, found)
	}
}

// TestHTMLIsText has a parser of HTML read what nodes said: all of it is text, of a node, of a fleet and of a
// difference.
func TestHTMLIsText(t *testing.T) {
	t.Parallel()
	for _, said := range hostile {
		asText(t, said, written(t, "html", false, played(said, probe.Statuses()...)))

		var out bytes.Buffer
		sink := newFleet(&out, writeFleetHTML)
		events := append([]probe.Event{{Type: probe.EventRun, Start: &probe.Start{Run: said,
			Cluster: &probe.Cluster{Context: said, Server: said}}},
			{Type: probe.EventRun, Node: "node-" + said, Start: &probe.Start{Attributes: []string{"zone=" + said}}}},
			played(said, probe.Fail, probe.Unknown)...)
		events = append(events,
			probe.Event{Type: probe.EventVerdict, Node: "node-" + said,
				Verdict: &probe.Verdict{Word: WordFault, Unexplained: []string{said}}},
			probe.Event{Type: probe.EventGroup, Group: &probe.Group{Cause: said, Nodes: []string{said}, Abouts: []string{said},
				Common:    &probe.Common{Attribute: said, Value: said},
				Witnesses: []probe.Witness{{Node: said, Cause: said}},
				Example:   probe.Example{Node: said, Cause: &probe.Cause{ID: said, Says: said}}}},
			probe.Event{Type: probe.EventVerdict, Verdict: &probe.Verdict{Word: WordFault}})
		for _, ev := range events {
			must.Do(t, sink.Event(ev))
		}
		asText(t, said, out.String())

		out.Reset()
		bad := result("bgp-session", said, probe.Fail, said).With("state", said)
		good := result("bgp-session", said, probe.OK, said).With("state", "up")
		must.Do(t, WriteDiff(&out, "html", Diff(said, runOf("node-"+said, WordHealthy, good), said,
			runOf("node-"+said, WordFault, bad))))
		asText(t, said, out.String())
	}
}

// TestHTMLOfSaved requires that a JSON report has the same page as the run, and that other files have no page.
func TestHTMLOfSaved(t *testing.T) {
	t.Parallel()
	live, saved := play(t, "html", false), play(t, "json", false)
	p := must.Get(ReadPage([]byte(saved)))(t)
	var d Document
	must.Do(t, json.Unmarshal([]byte(saved), &d))
	var out bytes.Buffer
	if err := writeHTML(&out, d); err != nil || out.String() != live || p.Subject != "node-a" || len(p.Causes) != 1 {
		t.Errorf("%v, %+v", err, p)
	}
	for _, other := range []string{"", "{", "{}", `{"error": "given up"}`, `{"kind": "Report"}`, `{"kind": "FleetReport", "node": "a"}`} {
		if _, err := ReadPage([]byte(other)); err == nil {
			t.Errorf("%s has a page", other)
		}
	}
}

// TestHTMLOfSavedFleet requires that a JSON report of several nodes has the same page as the run: serve keeps the JSON.
func TestHTMLOfSavedFleet(t *testing.T) {
	t.Parallel()
	var live, saved bytes.Buffer
	for format, out := range map[string]*bytes.Buffer{"html": &live, "json": &saved} {
		f := must.Get(Find(Formats(), format))(t)
		sink := must.Get(f.Sink(out, Options{Fleet: true}))(t)
		for _, ev := range append(fixed(), probe.Event{Type: probe.EventGroup, Group: &probe.Group{Cause: "of-a-test",
			Nodes: []string{"node-a"}, Of: 1,
			Example: probe.Example{Node: "node-a", Cause: &probe.Cause{ID: "of-a-test"}}}},
			probe.Event{Type: probe.EventVerdict, Node: "node-a", Verdict: &probe.Verdict{Word: WordFault}},
			probe.Event{Type: probe.EventVerdict, Verdict: &probe.Verdict{Word: WordFault, Exit: ExitFault}}) {
			must.Do(t, sink.Event(ev))
		}
	}
	p, err := ReadPage(saved.Bytes())
	var again bytes.Buffer
	if err = errors.Join(err, page.Write(&again, p)); err != nil || again.String() != live.String() ||
		p.Kind != "report of a fleet" || len(p.Causes) != 1 {
		t.Errorf("%v, %+v", err, p)
	}
}

// TestTimeline requires each access method at its time by the client's clock, and a note if a machine's clock differs.
func TestTimeline(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 2, 0, 0, 0, time.UTC)
	d := Document{Node: "node-a", Time: at, Verdict: &probe.Verdict{Elapsed: 5 * time.Second}, Methods: []Segment{
		{Method: "api", Time: at.Add(100 * time.Millisecond), Complete: true, Elapsed: time.Second},
		{Method: "pod", Time: at.Add(-time.Hour), Complete: true, Elapsed: 3 * time.Second},
		{Method: "neighbour", Node: "node-b", Time: at.Add(2 * time.Second)},
	}}
	bars := d.timeline().Bars
	if bars[0].From != 100*time.Millisecond || bars[0].Took != time.Second || bars[0].Note != "" {
		t.Errorf("%+v", bars[0])
	}
	if bars[1].From != 0 || bars[1].Note != "its clock differs by -1h0m0s" {
		t.Errorf("%+v", bars[1])
	}
	if bars[2].Word != "unknown" || bars[2].Note != "did not finish" || bars[2].Label != "outside node-b" {
		t.Errorf("%+v", bars[2])
	}
}

// TestSessionsOfANode requires a report's BGP peers with their families, and no other data of the check.
func TestSessionsOfANode(t *testing.T) {
	t.Parallel()
	session := func(target, state string, family int, node string) Located {
		r := probe.Found(probe.OK, "seen").On(target).With(factBGPState, state).With(factFamily, family)
		r.Check = checkSession
		if node != "" {
			r = r.With(factNode, node)
		}
		return Located{Method: "pod", Result: r}
	}
	whole := Located{Result: probe.Result{Check: checkSession, Target: "/run/calico/bird.ctl",
		Facts: probe.Facts{"peers": 2}}}
	d := Document{Node: "a", Results: []Located{session("b 10.0.0.2", "Established", 4, "b"),
		session("b fd00::2", "Active", 6, "b"),
		session("10.9.9.9", "Connect", 4, ""), whole}}
	drawn := d.sessions().Drawn()
	if drawn == nil || drawn.Up != 1 || drawn.Down != 2 || len(drawn.Vertices) != 3 {
		t.Errorf("%+v", drawn)
	}
}
