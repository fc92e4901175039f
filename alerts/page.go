package alerts

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

//go:embed page.html
var pages string

const style = `body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:#222;background:#fff}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.25em .75em .25em 0;border-bottom:1px solid #ddd;overflow-wrap:anywhere}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f6f6f6;padding:1em}.fault{color:#b00020}.incomplete,.warnings{color:#8a5a00}.healthy{color:#1b6e20}`

// policy lets a browser load nothing and run nothing, whatever a label or a node says.
var policy = "default-src 'none'; style-src 'sha256-" + sum(style) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(s[:])
}

var page = template.Must(template.New("").Funcs(template.FuncMap{
	"plain": probe.Plain,
	"style": func() template.CSS { return style },
	"time": func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format("2006-01-02 15:04:05Z")
	},
	"took": func(j Job) string {
		if j.State != Done || j.Started.IsZero() {
			return ""
		}
		return j.Ended.Sub(j.Started).Round(100 * time.Millisecond).String()
	},
	"labels": func(labels map[string]string) string {
		var out []string
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			out = append(out, name+"="+labels[name])
		}
		return probe.Plain(strings.Join(out, " "))
	},
}).Parse(pages))

// overviewed is how many jobs the page lists.
const overviewed = 100

func (s *Server) overview(w http.ResponseWriter, _ *http.Request) {
	data := struct {
		Queued, Running int
		Limits          Limits
		Limited         time.Time
		Jobs            []Job
		Unmapped        []Unmapped
	}{Limits: s.limits}
	s.mu.Lock()
	data.Queued, data.Running = s.inState(Queued), s.inState(Running)
	data.Limited = s.heldUp(time.Now())
	for _, id := range slices.Backward(s.order) {
		if len(data.Jobs) == overviewed {
			break
		}
		data.Jobs = append(data.Jobs, *s.jobs[id])
	}
	data.Unmapped = slices.Clone(s.unmapped)
	s.mu.Unlock()
	slices.Reverse(data.Unmapped)
	s.render(w, "overview", data)
}

// report is a page about a job, or its report in another form.
func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	file := r.PathValue("file")
	suffix := path.Ext(file)
	id := strings.TrimSuffix(file, suffix)
	s.mu.Lock()
	found := s.jobs[id] // before anything becomes the name of a file
	var job Job
	if found != nil {
		job = *found
		job.Alerts = slices.Clone(found.Alerts)
	}
	s.mu.Unlock()
	switch {
	case found == nil:
		http.Error(w, "there is no such report, or none any more", http.StatusNotFound)
	case served[suffix] != "":
		s.file(w, id, suffix)
	case suffix != "":
		http.Error(w, "a report comes as .json and .md", http.StatusNotFound)
	default:
		b, err := s.store.read(id, ".md")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.Error(err.Error())
		}
		s.render(w, "report", struct {
			Job  Job
			Text string
		}{job, probe.Plain(string(b))})
	}
}

func (s *Server) render(w http.ResponseWriter, name string, data any) {
	var out bytes.Buffer
	if err := page.ExecuteTemplate(&out, name, data); err != nil {
		s.log.Error("the page cannot be made", "error", err.Error())
		http.Error(w, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = out.WriteTo(w)
}
