package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/probe"
)

// writeHTML writes a single-node run as a page.
func writeHTML(w io.Writer, d Document) error { return page.Write(w, d.page()) }

// ReadPage returns the page of a run over one or several nodes that was saved as JSON.
func ReadPage(b []byte) (page.Page, error) {
	if documentKind(b) == KindFleet {
		var f Fleet
		if err := json.Unmarshal(b, &f); err != nil || f.Verdict == nil {
			return page.Page{}, cmp.Or(err, errNoRun)
		}
		return f.page(), nil
	}
	var d Document
	if err := json.Unmarshal(b, &d); err != nil {
		return page.Page{}, fmt.Errorf("is not a JSON report: %w", err)
	}
	if d.Kind != KindReport || d.Verdict == nil || d.Node == "" {
		return page.Page{}, errNoRun
	}
	return d.page(), nil
}

func (d Document) page() page.Page {
	p := page.Page{Kind: "report of a node", Subject: d.Node,
		Verdict: page.Verdict{Word: d.Word, Says: d.leads(), Counts: countsOf(d.Counts)},
		Facts:   about(d.Cluster, d.began(), d.Elapsed, strings.Join(d.methods(), ", ")),
		Notes:   d.notes(), Foot: fmt.Sprintf("calico-probe %s, run %s", d.Version, d.Run)}
	for _, c := range d.Causes {
		p.Causes = append(p.Causes, CausePage(c))
	}
	own, baseline := d.own(), d.ofBaselines()
	bad := slices.DeleteFunc(slices.Clone(own), func(r Located) bool { return !lined(r.Result) })
	rest := slices.DeleteFunc(slices.Clone(own), func(r Located) bool { return lined(r.Result) })
	add := func(part page.Part, wanted bool) {
		if wanted {
			p.Parts = append(p.Parts, part)
		}
	}
	add(page.Part{Title: "Bad results", Note: answers(tally(bad), 0), Folded: len(d.Causes) > 0,
		Table: answersTable(bad, false)}, len(bad) > 0)
	sessions := d.sessions()
	add(page.Part{Title: "BGP sessions", Topology: sessions}, len(sessions.Sessions) > 0)
	add(page.Part{Title: "Compared with baseline nodes", Lines: d.Contrast}, len(d.Contrast) > 0)
	add(page.Part{Title: "Everything else", Note: answers(tally(rest), 0), Folded: true,
		Table: answersTable(rest, false)}, len(rest) > 0)
	add(page.Part{Title: "Answers of baseline nodes", Note: answers(tally(baseline), 0), Folded: true,
		Table: answersTable(baseline, true)}, len(baseline) > 0)
	add(page.Part{Title: "How the run went", Timeline: d.timeline()}, len(d.Methods) > 0)
	slow := d.slowest()
	add(page.Part{Title: "The slowest answers", Folded: true, Timeline: slow}, len(slow.Bars) > 0)
	add(page.Part{Title: "Probe messages", Folded: true, Lines: d.Log}, len(d.Log) > 0)
	return p
}

// leads returns the first cause, or the text that replaces it.
func (d Document) leads() string {
	switch {
	case len(d.Causes) > 1:
		return fmt.Sprintf("%s, and %s", heading(d.Causes[0]), plural(len(d.Causes)-1, "more cause"))
	case len(d.Causes) == 1:
		return heading(d.Causes[0])
	case len(d.Unexplained) > 0:
		return "no known cause explains " + strings.Join(d.Unexplained, ", ")
	case d.Word == WordHealthy && slices.Equal(d.methods(), []string{"api"}):
		return "only the API was checked, not the node"
	}
	return ""
}

// heading returns a cause in a few words.
func heading(c probe.Cause) string { return cmp.Or(c.Title, c.Says, c.ID) }

// causeName returns a cause's ID with its subject.
func causeName(c probe.Cause) string { return strings.TrimSpace(c.ID + " " + c.About) }

// notes returns what a reader must know in addition to the causes.
func (d Document) notes() []string {
	var out []string
	if len(d.Causes) > 0 && len(d.Unexplained) > 0 {
		out = append(out, "Unexplained: "+strings.Join(d.Unexplained, ", "))
	}
	if d.Outside != "" {
		out = append(out, notFromOutside(d.Outside))
	}
	if text := d.fewer(); text != "" {
		out = append(out, text)
	}
	return out
}

func (d Document) ofBaselines() []Located {
	var out []Located
	for _, r := range d.Results {
		if r.Node != "" {
			out = append(out, r)
		}
	}
	return out
}

func tally(of []Located) probe.Counts {
	out := probe.Counts{}
	for _, r := range of {
		out[r.Status]++
	}
	return out
}

func countsOf(c probe.Counts) []page.Count {
	var out []page.Count
	for _, s := range probe.Statuses() {
		if c[s] > 0 {
			out = append(out, page.Count{N: c[s], Word: string(s)})
		}
	}
	return out
}

// about returns the facts that every run has.
func about(c *probe.Cluster, began time.Time, took time.Duration, via string) []page.Fact {
	var out []page.Fact
	if c != nil {
		out = append(out, page.Fact{Name: "cluster", Value: c.String()})
	}
	if !began.IsZero() {
		out = append(out, page.Fact{Name: "begun", Value: began.UTC().Format("2006-01-02 15:04:05 UTC")})
	}
	if took > 0 {
		out = append(out, page.Fact{Name: "took", Value: took.Round(100 * time.Millisecond).String()})
	}
	if via != "" {
		out = append(out, page.Fact{Name: "via", Value: via})
	}
	return out
}

// answersTable returns a row for each answer, the most important first.
func answersTable(of []Located, baseline bool) *page.Table {
	t := &page.Table{Head: []string{"check", "target", "saw"}}
	if baseline {
		t.Head = append([]string{"node"}, t.Head...)
	}
	of = slices.SortedStableFunc(slices.Values(of), func(a, b Located) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(urgency(a.Status), urgency(b.Status)))
	})
	for _, r := range of {
		row := page.Row{Word: string(r.Status), Lines: slices.Clone(r.Lines),
			Cells: page.Texts(r.Check, strings.TrimSpace(r.Target+" "+fromOf(r.Result)), r.Saw)}
		if baseline {
			row.Cells = append(page.Texts(r.Node), row.Cells...)
		}
		for _, name := range sortedFacts(r.Facts) {
			row.Lines = append(row.Lines, fmt.Sprintf("%s = %v", name, r.Facts[name]))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// CausePage returns a cause for a page.
func CausePage(c probe.Cause) page.Cause {
	check, change := steps(c.Fix)
	out := page.Cause{Name: heading(c), ID: causeName(c), Confidence: string(c.Confidence),
		Word: string(confidenceStatus(c.Confidence)),
		Says: c.Says, Fix: page.Fix{Check: pastes(check), Says: c.Fix.Says, Touches: c.Fix.Radius},
		Evidence: cluesPage(c.For), Against: cluesPage(c.Against)}
	for _, b := range change {
		out.Fix.Blocks = append(out.Fix.Blocks, page.Block{If: b.If, Steps: pastes(b.Commands)})
	}
	more := func(name string, values []string) {
		if len(values) > 0 {
			out.More = append(out.More, page.Fact{Name: name, Value: strings.Join(values, ", ")})
		}
	}
	more("unknown", c.Missing)
	if text := follows(c); text != "" {
		more("explains", []string{text})
	}
	return out
}

func cluesPage(clues []probe.Clue) []page.Seen {
	var out []page.Seen
	for _, c := range clues {
		what := strings.TrimSpace(c.Check + " " + c.Target)
		if c.Node != "" {
			what += " on " + c.Node
		}
		out = append(out, page.Seen{Word: string(c.Status), What: what, Saw: c.Saw})
	}
	return out
}
