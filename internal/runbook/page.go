package runbook

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/internal/report"
)

// ReadPage returns the page of a record that was saved as JSON.
func ReadPage(b []byte) (page.Page, error) {
	var r Record
	if err := json.Unmarshal(b, &r); err != nil {
		return page.Page{}, fmt.Errorf("is not a JSON record: %w", err)
	}
	if r.Kind != KindRecord || r.Node == "" {
		return page.Page{}, errors.New("is not the record of a runbook")
	}
	return r.Page(), nil
}

// Page returns the record as a page: its outcome, the causes of the last run, and every step.
func (r *Record) Page() page.Page {
	p := page.Page{Kind: "runbook record", Subject: r.Node, Verdict: page.Verdict{Word: "unfinished"},
		Foot: fmt.Sprintf("calico-probe %s, runbook %s (%s), by %s", r.Version, r.Runbook, r.Digest, r.By)}
	fact := func(name, value string) {
		if value != "" {
			p.Facts = append(p.Facts, page.Fact{Name: name, Value: value})
		}
	}
	if r.Cluster != nil {
		fact("cluster", r.Cluster.String())
	}
	fact("runbook", r.Runbook)
	fact("started", r.Began.UTC().Format("2006-01-02 15:04:05 UTC"))
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		fact(name, r.Params[name])
	}
	if o := r.Outcome; o != nil {
		p.Verdict.Word, p.Verdict.Says = o.Verdict, o.Says
		if o.Next != "" {
			p.Notes = append(p.Notes, "Next: "+o.Next)
		}
	}
	for _, c := range r.lastCauses() {
		p.Causes = append(p.Causes, report.CausePage(c.Cause))
	}
	var steps []page.Step
	for _, e := range r.Steps {
		steps = append(steps, e.page())
	}
	if len(steps) > 0 {
		p.Parts = append(p.Parts, page.Part{Title: "Steps", Steps: steps})
	}
	return p
}

// lastCauses returns the causes from the last run on the node. Causes from earlier runs may already be fixed.
func (r *Record) lastCauses() []Cause {
	for _, e := range slices.Backward(r.Steps) {
		for _, a := range e.Asked {
			if a.Node == r.Node {
				return a.Causes
			}
		}
	}
	return nil
}

// page returns a step for the page.
func (e Entry) page() page.Step {
	s := page.Step{Number: e.Step, Name: orKind(e), Kind: e.Kind}
	if !e.At.IsZero() {
		s.Kind += e.At.UTC().Format(", 15:04:05")
	}
	for _, a := range e.Asked {
		s.Word = a.Verdict
		s.Seen = append(s.Seen, a.seen()...)
	}
	switch {
	case e.LeftOut != "":
		s.Word, s.Says = "skipped", "because this is false: "+e.LeftOut
	case e.Kind == "wait":
		s.Says = fmt.Sprintf("%s: %s, at attempt %d", holds(*e.Held), e.That, e.Tries)
	case e.Result != nil:
		s.Word, s.Says = e.Result.Status, e.Text
		s.Seen = []page.Seen{{Word: e.Result.Status, What: e.Result.label(), Saw: e.Result.Saw}}
	case e.Answer != nil:
		s.Says = fmt.Sprintf("%s %s (by %s)", e.Text, e.Answer.Text, e.Answer.By)
	case e.Choice != nil:
		s.Says = e.Choice.String()
	case e.Held != nil:
		s.Says = strings.TrimSuffix(holds(*e.Held)+": "+e.That+". "+e.Text, ". ")
	case e.Notified != nil && e.Notified.Failed != "":
		s.Word, s.Says = "fail", e.Notified.Whom+" was not notified: "+e.Notified.Failed
	case e.Notified != nil:
		s.Says = e.Notified.Whom + " was notified"
	case e.Deed != nil:
		e.Deed.page(&s)
	case e.Kind != "run":
		s.Lines = strings.Split(strings.TrimRight(e.Text, "\n"), "\n")
	}
	return s
}

func holds(held bool) string {
	if held {
		return "true"
	}
	return "false"
}

// seen returns a run's causes or, if there are none, its bad results.
func (a Asked) seen() []page.Seen {
	out := []page.Seen{{Word: a.Verdict, What: "node " + a.Node,
		Saw: cmp.Or(strings.Join(a.answering(), ", "), "did not run")}}
	for _, r := range a.silent() {
		out = append(out, page.Seen{Word: r.Status, What: r.Target, Saw: r.Saw})
	}
	if a.Lacks != "" {
		out = append(out, page.Seen{Word: wordIncomplete, Saw: a.Lacks})
	}
	for _, c := range a.Causes {
		out = append(out, page.Seen{Word: "cause", What: strings.TrimSpace(c.ID + " " + c.About), Saw: c.Says})
	}
	if len(a.Causes) > 0 {
		return out
	}
	bad := a.bad()
	for _, r := range bad[:min(len(bad), shownBad)] {
		out = append(out, page.Seen{Word: r.Status, What: r.label(), Saw: r.Saw})
	}
	if n := len(bad) - shownBad; n > 0 {
		out = append(out, page.Seen{What: "and", Saw: fmt.Sprintf("%d more bad results", n)})
	}
	return out
}

// page adds an action to its step.
func (d Deed) page(s *page.Step) {
	s.Says = d.Says + " It touches " + d.Touches + "."
	s.Lines = []string{Quoted(d.Command)}
	lines := func(head, text string) {
		if strings.TrimSpace(text) != "" {
			s.Lines = append(append(s.Lines, "", head), strings.Split(strings.TrimRight(text, "\n"), "\n")...)
		}
	}
	lines("the dry run showed:", d.DryRun)
	for _, k := range d.Kept {
		lines("saved before it ran: "+k.Label(), cmp.Or(k.Failed, strings.Join(k.Lines, "\n")))
	}
	switch {
	case d.NotRun != "":
		s.Word = "not run"
		lines("not run:", d.NotRun)
	case d.Unsure != "":
		s.Word = "unknown"
		lines("confirmed by "+d.By+"; unknown whether it ran:", d.Unsure)
	default:
		s.Word = fmt.Sprintf("exit code %d", d.Exit)
		s.Says += " Confirmed by " + d.By + "."
	}
	lines("unknown whether it ran before:", d.Before)
	lines("its output:", d.Output)
}
