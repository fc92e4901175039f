package mesh

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/page"
)

// The numbers of failures that the page lists individually. The matrices show all failures.
const (
	pageFindings = 20
	pageTrials   = 8 // for a finding or a node, in each plane
)

// drawnApart explains which nodes in a large cluster the page draws one by one.
const drawnApart = "In a large cluster, each zone is one symbol. Nodes with far more sessions than others, such as route " +
	"reflectors (squares), and nodes with sessions that are down are drawn separately."

// Page returns the report as an HTML page.
func (r Report) Page() page.Page {
	p := page.Page{Kind: "paths between nodes", Subject: fmt.Sprintf("%d nodes", len(r.Nodes)),
		Verdict: page.Verdict{Word: r.Word, Says: r.sum()},
		Foot:    fmt.Sprintf("calico-probe %s, run %s", r.Version, r.Run)}
	if r.Cluster != nil {
		p.Facts = append(p.Facts, page.Fact{Name: "cluster", Value: r.Cluster.String()})
	}
	p.Facts = append(p.Facts, page.Fact{Name: "begun", Value: r.Time.UTC().Format("2006-01-02 15:04:05 UTC")},
		page.Fact{Name: "took", Value: r.Elapsed.Round(100 * time.Millisecond).String()})
	var left int
	if p.Causes, left = r.findings(); left > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d more were found: -o json has them, and the maps below show their paths.", left))
	}
	p.Nodes = r.members()
	page.Ordered(p.Nodes)
	at := map[string]int{}
	for i, n := range p.Nodes {
		at[n.Name] = i
	}
	for _, plane := range r.Planes {
		if plane.Left != "" {
			p.Notes = append(p.Notes, plane.title()+": "+plane.sum())
			continue
		}
		if plane.Name == PlaneBGP {
			p.Parts = append(p.Parts, page.Part{Title: "BGP sessions", Topology: plane.topology(r.Nodes), Note: drawnApart})
		}
		p.Parts = append(p.Parts, page.Part{Title: plane.title() + ": " + plane.sum(), Note: plane.silence(),
			Folded: plane.Failed+plane.Lossy+plane.Unknown == 0, Matrix: &page.Matrix{Paths: plane.paths(at)}})
	}
	return p
}

// title returns a plane's title.
func (p Plane) title() string {
	text := cmp.Or(planeSays[p.Name], p.Name+" paths")
	return strings.ToUpper(text[:1]) + text[1:]
}

// sum counts a plane's failed paths, or explains why it has none.
func (p Plane) sum() string {
	if p.Left != "" {
		return "skipped: " + p.Left
	}
	how := "paths fail"
	if p.Name == PlaneBGP {
		how = "are down"
	}
	text := fmt.Sprintf("%d of %d %s", p.Failed, p.Tried, how)
	for _, more := range []struct {
		n   int
		how string
	}{
		{p.Lossy, "lose packets"}, {p.Unknown, "more without an answer"},
		{p.Held, "more do not answer, perhaps because of a network policy"},
		{len(p.Outside), "of the peers outside the cluster"},
	} {
		if more.n > 0 {
			text += fmt.Sprintf(", %d %s", more.n, more.how)
		}
	}
	return text
}

// silence names the nodes that could not report their sessions.
func (p Plane) silence() string {
	if len(p.Silent) == 0 {
		return ""
	}
	text := "Not reported by " + strings.Join(p.Silent[:min(len(p.Silent), pageTrials)], "; by ")
	if left := len(p.Silent) - pageTrials; left > 0 {
		text += fmt.Sprintf("; and by %d more", left)
	}
	return text
}

// word returns the result of a path in one word.
func (t Trial) word() string {
	switch {
	case t.Failed:
		return "fail"
	case t.Received == 0 && t.Sent > 0: // nothing came back, which is not a fault in this case
		return "unknown"
	case t.Received < t.Sent:
		return "lossy"
	}
	return "ok"
}

// seen returns a path as evidence.
func (t Trial) seen(plane string) page.Seen {
	return page.Seen{Word: t.word(), What: plane + ": " + t.From + " to " + t.To, Saw: t.Saw}
}

func (p Plane) paths(at map[string]int) []page.Path {
	var out []page.Path
	for _, t := range p.Trials {
		from, known := at[t.From]
		to, both := at[t.To]
		if known && both { // a peer may be outside the cluster
			out = append(out, page.Path{From: from, To: to, Word: t.word(), MS: t.RTT, Saw: t.Saw})
		}
	}
	return out
}

func (p Plane) topology(nodes []Member) *page.Topology {
	t := &page.Topology{}
	for _, n := range nodes {
		t.Places = append(t.Places, page.Place{Name: n.Name, Zone: n.Zone})
	}
	for _, trial := range p.Trials {
		t.Sessions = append(t.Sessions, page.Session{A: trial.From, B: trial.To, Up: !trial.Failed})
	}
	return t
}

// findings returns the findings from all planes that fit on the page. A finding in several planes appears once.
func (r Report) findings() (out []page.Cause, left int) {
	places := map[string]int{}
	for _, p := range r.Planes {
		trials := map[Ends]Trial{}
		for _, t := range p.Trials {
			trials[Ends{t.From, t.To}] = t
		}
		for _, f := range p.Findings {
			place, name, value := f.place(), f.where(), f.counts()
			i, known := places[place]
			if !known {
				if len(out) == pageFindings {
					left++
					continue
				}
				i = len(out)
				places[place], out = i, append(out, page.Cause{Name: name, Word: "fail"})
			}
			if out[i].Name != name { // the same finding in another direction
				value = f.Says()
			}
			out[i].Facts = append(out[i].Facts, page.Fact{Name: p.title(), Value: value})
			for _, path := range f.Paths[:min(len(f.Paths), pageTrials)] {
				out[i].Evidence = append(out[i].Evidence, trials[path].seen(p.Name))
			}
		}
	}
	return out, left
}

// members returns the nodes of the page. A node is at fault if a finding names it, or if a finding names its rack or
// zone and the node has failed paths. A single failed path proves nothing, because every node has a failed path to a
// dead node. If all paths fail, every node is at fault.
func (r Report) members() []page.Node {
	named := map[string]bool{}
	for _, p := range r.Planes {
		for _, f := range p.Findings {
			if f.Kind == kindRack || f.Kind == kindAll {
				named[f.Kind+strings.Join(f.Names, " ")] = true
				continue
			}
			for _, name := range f.Names {
				named[zoneOrNode(f.Kind)+name] = true
			}
		}
	}
	var out []page.Node
	at := map[string]int{}
	for i, n := range r.Nodes {
		at[n.Name] = i
		out = append(out, page.Node{Name: n.Name, Zone: n.Zone, Word: "healthy"})
	}
	for _, p := range r.Planes {
		tried, failed, seen := make([]int, len(out)), make([]int, len(out)), make([]int, len(out))
		for _, t := range p.Trials {
			for _, name := range []string{t.From, t.To} {
				i, known := at[name]
				if !known {
					continue
				}
				if tried[i]++; t.Failed {
					failed[i]++
				}
				if t.word() != "ok" && seen[i] < pageTrials {
					seen[i]++
					out[i].Seen = append(out[i].Seen, t.seen(p.Name))
				}
			}
		}
		for i := range out {
			if failed[i] > 0 {
				out[i].Says = strings.TrimPrefix(out[i].Says+fmt.Sprintf(", %s %d of %d", p.Name, failed[i], tried[i]), ", ")
				rack := strings.TrimRight(r.Nodes[i].Rack+" "+out[i].Zone, " ")
				if named[KindNode+out[i].Name] || named[kindZone+out[i].Zone] || named[kindRack+rack] || named[kindAll] {
					out[i].Word = "fault"
				}
			}
		}
	}
	for i, n := range r.Nodes {
		switch {
		case n.Untested != "":
			out[i].Word, out[i].Says = "not asked", n.Untested
		case out[i].Word == "fault":
			out[i].Says = "paths that fail: " + out[i].Says
		case out[i].Says != "":
			out[i].Says = "fails towards the targets above: " + out[i].Says
		}
	}
	return out
}

// zoneOrNode returns the kind of the names in a finding.
func zoneOrNode(kind string) string {
	if kind == kindZone || kind == kindZones {
		return kindZone
	}
	return KindNode
}
