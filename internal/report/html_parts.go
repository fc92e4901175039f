package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/probe"
)

// The check for BGP sessions with its facts, and limits for the page.
const (
	checkSession               = "bgp-session"
	factBGPState    probe.Fact = "bgp_state"
	factFamily      probe.Fact = "family"
	bgpEstablished             = "Established"
	shownSlow                  = 12                    // number of bars for the slowest answers
	slowEnough                 = 20 * time.Millisecond // shorter answers have no bar
	clockDifference            = time.Second           // a smaller difference between two clocks is not mentioned
)

// sessionOf returns the session that a node's answer is about.
func sessionOf(node string, r probe.Result) (page.Session, bool) {
	state := r.Facts.Str(factBGPState)
	if r.Check != checkSession || state == "" {
		return page.Session{}, false
	}
	s := page.Session{A: node, B: cmp.Or(r.Facts.Str(factNode), r.Target), Up: state == bgpEstablished}
	if family, ok := r.Facts.Num(factFamily); ok {
		s.Kind = fmt.Sprintf("IPv%.0f", family)
	}
	return s, true
}

// sessions returns the sessions of the node and of baseline nodes.
func (d Document) sessions() *page.Topology {
	t := &page.Topology{Places: []page.Place{{Name: d.Node}}}
	for _, r := range d.Results {
		if s, is := sessionOf(cmp.Or(r.Node, d.Node), r.Result); is {
			t.Sessions = append(t.Sessions, s)
		}
	}
	return t
}

// timeline returns when each access method was used. If the machines' clocks differ, a bar starts at the beginning of
// the run.
func (d Document) timeline() *page.Timeline {
	began := d.began()
	out := &page.Timeline{Total: d.Elapsed}
	for _, s := range d.Methods {
		bar := page.Bar{Label: strings.TrimSpace(methodLabel(s.Method) + " " + s.Node), Word: "info", From: s.Time.Sub(began),
			Took: s.Elapsed}
		switch off := bar.From; {
		case !s.Complete:
			bar.Word, bar.Note = string(probe.Unknown), "did not finish"
		case off < -clockDifference || off > d.Elapsed+clockDifference:
			bar.Note = fmt.Sprintf("its clock differs by %v", off.Round(time.Second))
			bar.From = 0
		}
		out.Bars = append(out.Bars, bar)
	}
	return out
}

// slowest returns the node's slowest answers, measured from the start of each check.
func (d Document) slowest() *page.Timeline {
	out := &page.Timeline{}
	own := slices.SortedStableFunc(slices.Values(d.own()), func(a, b Located) int {
		return cmp.Compare(b.Elapsed, a.Elapsed)
	})
	for _, r := range own[:min(len(own), shownSlow)] {
		if r.Elapsed < slowEnough {
			break
		}
		out.Total = max(out.Total, r.Elapsed)
		out.Bars = append(out.Bars, page.Bar{Label: r.named(), Word: string(r.Status), Took: r.Elapsed})
	}
	return out
}

// page returns the page of a difference.
func (d Difference) page() page.Page {
	counts := map[string]int{}
	for _, c := range d.Changes {
		counts[c.Kind]++
	}
	p := page.Page{Kind: "comparison of two runs", Subject: d.B.Node,
		Verdict: page.Verdict{Word: "no worse"}, Facts: append(d.A.facts("A"), d.B.facts("B")...)}
	if d.A.Node != d.B.Node {
		p.Subject = d.A.Node + " and " + d.B.Node
	}
	switch {
	case d.Worse():
		p.Verdict.Word, p.Verdict.Says = changeWorse, fmt.Sprintf("B is worse in %d of %s", counts[changeWorse],
			plural(len(d.Changes)+d.Same, "answer"))
	case d.Short():
		p.Verdict.Word, p.Verdict.Says = WordIncomplete, "B has too few answers to rule out a worse state"
	}
	for _, kind := range []struct {
		kind, title string
		folded      bool
	}{{changeWorse, "Worse in B", false}, {changeBetter, "Better in B", false},
		{changeVanished, "Answered by A only", false}, {changeFact, "Same answer, different facts", false},
		{changeAppeared, "Answered by B only, and good", true},
		{changeFollowUp, "Follow-up checks of one run only", true}} {
		if n := counts[kind.kind]; n > 0 {
			p.Verdict.Counts = append(p.Verdict.Counts, page.Count{N: n, Word: kind.kind})
			p.Parts = append(p.Parts, page.Part{Title: kind.title, Folded: kind.folded, Table: d.table(kind.kind)})
		}
	}
	p.Verdict.Counts = append(p.Verdict.Counts, page.Count{N: d.Same, Word: "alike"})
	return p
}

// facts returns what is known about one of the two runs.
func (s Side) facts(letter string) []page.Fact {
	text := cmp.Or(s.Verdict, "no verdict") + " on node " + Head(s.Node, s.Cluster, s.Time)
	if s.Lacks != "" {
		text += ", incomplete: " + s.Lacks
	}
	if s.Name != s.Node {
		text += " (" + s.Name + ")"
	}
	return []page.Fact{{Name: letter, Value: text}}
}

// table returns the changes of a kind.
func (d Difference) table(kind string) *page.Table {
	t := &page.Table{Head: []string{"check", "target", "A", "B", "saw"}}
	for _, c := range d.Changes {
		if c.Kind != kind {
			continue
		}
		was, is := cmp.Or(string(c.Was), "-"), cmp.Or(string(c.Is), "-")
		if kind == changeFact {
			was, is, c.Saw = fmt.Sprint(c.From), fmt.Sprint(c.To), string(c.Fact)
		}
		target := strings.TrimSpace(c.Target + " " + fromOf(probe.Result{From: c.Pod}))
		t.Rows = append(t.Rows, page.Row{Word: kind, Cells: page.Texts(c.Check, target, was, is, c.Saw)})
	}
	return t
}
