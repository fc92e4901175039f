package alerts

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/internal/page"
)

// policy is the content security policy of every page. Other sites must not show a page in a frame.
var policy = page.Policy + "; frame-ancestors 'none'"

// overviewed limits the number of jobs in the overview.
const overviewed = 100

// maxPaged is the largest report that gets a page, in bytes of JSON. Four pages may be built at once.
const maxPaged = 2 << 20

// at formats a time for pages.
func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func labelled(labels map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, name+"="+labels[name])
	}
	return strings.Join(out, " ")
}

// took returns a finished job's duration, or "" if the job is unfinished.
func (j Job) took() string {
	if j.State != Done || j.Started.IsZero() {
		return ""
	}
	return j.Ended.Sub(j.Started).Round(100 * time.Millisecond).String()
}

func (s *Server) overview(w http.ResponseWriter, _ *http.Request) {
	reports := &page.Table{Head: []string{"node", "queued", "procedure", "result", "took"}}
	nothing := &page.Table{Head: []string{"alert", "last sent", "times", "why", "labels"}}
	p := page.Page{Kind: "serve", Subject: "Reports of alerts",
		Parts: []page.Part{{Title: "Reports", Table: reports}, {Title: "Alerts that started nothing", Table: nothing}}}
	s.mu.Lock()
	p.Facts = []page.Fact{{Name: "running", Value: fmt.Sprintf("%d of %d", s.inState(Running), s.limits.Workers)},
		{Name: "waiting", Value: fmt.Sprintf("%d of %d", s.inState(Queued), s.limits.Queue)}}
	if limited := s.heldUp(time.Now()); !limited.IsZero() {
		p.Notes = append(p.Notes, fmt.Sprintf("hourly limit of %d jobs reached: the next one starts at %s",
			s.limits.RunsPerHour, at(limited)))
	}
	for _, id := range slices.Backward(s.order) {
		if len(reports.Rows) == overviewed {
			break
		}
		j := s.jobs[id]
		cells := page.Texts(j.Node, at(j.Queued), j.Procedure.String(), j.Says, j.took())
		cells[0].Link = "/reports/" + j.ID
		reports.Rows = append(reports.Rows, page.Row{Word: cmp.Or(j.Verdict, string(j.State)), Cells: cells})
	}
	for _, u := range slices.Backward(s.unmapped) {
		nothing.Rows = append(nothing.Rows, page.Row{
			Cells: page.Texts(u.Alert.Name, at(u.Last), fmt.Sprint(u.Times), u.Reason, labelled(u.Alert.Labels))})
	}
	s.mu.Unlock()
	if len(reports.Rows) == 0 {
		p.Parts[0] = page.Part{Title: "Reports", Note: "no alert has started a job yet"}
	}
	if len(nothing.Rows) == 0 {
		p.Parts[1] = page.Part{Title: "Alerts that started nothing", Note: "none"}
	}
	s.render(w, p)
}

// report serves the page of a job, or its report in another format.
func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	file := r.PathValue("file")
	suffix := path.Ext(file)
	id := strings.TrimSuffix(file, suffix)
	s.mu.Lock()
	found := s.jobs[id] // validate before using it as a file name
	var job Job
	if found != nil {
		job = *found
		job.Alerts = slices.Clone(found.Alerts)
	}
	s.mu.Unlock()
	switch {
	case found == nil:
		http.Error(w, "unknown report, or it was removed", http.StatusNotFound)
	case served[suffix] != "":
		s.file(w, id, suffix)
	case suffix != "":
		http.Error(w, "reports are available as .json and .md", http.StatusNotFound)
	default:
		s.render(w, s.pageOf(job))
	}
}

// pageOf returns a job's page: its report's page, if there is one, and the facts about the job.
func (s *Server) pageOf(job Job) page.Page {
	p, ok := s.stored(job)
	if !ok {
		p = page.Page{Subject: job.Node, Verdict: page.Verdict{Word: cmp.Or(job.Verdict, string(job.State)), Says: job.Says}}
		if text := s.read(job, ".md"); len(text) > 0 { // the report is too large, or another version wrote it
			p.Parts = append(p.Parts, page.Part{Title: "Report", Lines: strings.Split(string(text), "\n")})
		}
	}
	if job.State == Done {
		p.Links = append(p.Links, page.Cell{Text: "JSON", Link: "/reports/" + job.ID + ".json"},
			page.Cell{Text: "Markdown", Link: "/reports/" + job.ID + ".md"})
	}
	p.Kind, p.Home = "report for an alert", "/"
	job.describe(&p)
	return p
}

// describe adds the facts about a job to its report's page.
func (j Job) describe(p *page.Page) {
	fact := func(name, value string) {
		if value != "" {
			p.Facts = append(p.Facts, page.Fact{Name: name, Value: value})
		}
	}
	fact("procedure", j.Procedure.String())
	fact("queued", at(j.Queued))
	fact("job started", at(j.Started))
	fact("done", at(j.Ended))
	if j.Attempts > 1 {
		fact("attempts", fmt.Sprint(j.Attempts))
	}
	fact("no event on the node", j.NoEvent)
	t := &page.Table{Head: []string{"alert", "since", "resolved", "labels"}}
	for _, a := range j.Alerts {
		word := "firing"
		if !a.Resolved.IsZero() {
			word = "resolved"
		}
		t.Rows = append(t.Rows, page.Row{Word: word,
			Cells: page.Texts(a.Name, at(a.StartsAt), at(a.Resolved), labelled(a.Labels))})
	}
	part := page.Part{Title: "Alerts", Table: t}
	if j.More > 0 {
		part.Note = fmt.Sprintf("and %d others", j.More)
	}
	p.Parts = append(p.Parts, part)
}

// stored returns the page of a job's stored report.
func (s *Server) stored(job Job) (page.Page, bool) {
	b := s.read(job, ".json")
	if s.cluster.Page == nil || len(b) == 0 || len(b) > maxPaged {
		return page.Page{}, false
	}
	p, err := s.cluster.Page(b)
	return p, err == nil // errors, and reports from other versions, have no page
}

// read returns a job's report, or nil if there is none.
func (s *Server) read(job Job, suffix string) []byte {
	if job.State != Done {
		return nil
	}
	b, err := s.store.read(job.ID, suffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Error(err.Error())
	}
	return b
}

func (s *Server) render(w http.ResponseWriter, p page.Page) {
	var out bytes.Buffer
	if err := page.Write(&out, p); err != nil {
		s.log.Error("rendering the page failed", "error", err.Error())
		http.Error(w, "rendering the page failed", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = out.WriteTo(w)
}
