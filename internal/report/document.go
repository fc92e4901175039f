package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// document collects a run, and passes it on once the verdict is known.
type document struct {
	w       io.Writer
	as      func(io.Writer, Document) error
	run     string
	begun   probe.Start // from the client's start event
	started []Segment
	results []Located
	causes  []probe.Cause
	log     []string
	lines   []string // lines of the comparison with baseline nodes
}

// whole returns the sink of a format that writes a complete run over one or several nodes.
func whole(as func(io.Writer, Document) error, of func(io.Writer, Fleet) error) func(io.Writer, Options) (Sink, error) {
	return func(w io.Writer, o Options) (Sink, error) {
		if o.Fleet {
			return newFleet(w, of), nil
		}
		return &document{w: w, as: as}, nil
	}
}

// tree returns the sink of a format that writes the fields of any run.
func tree(as func(io.Writer, any) error) func(io.Writer, Options) (Sink, error) {
	return whole(func(w io.Writer, d Document) error { return as(w, d) },
		func(w io.Writer, f Fleet) error { return as(w, f) })
}

// Collect returns a sink that appends each run to all.
func Collect(all *[]Document) Sink {
	return &document{as: func(_ io.Writer, d Document) error { *all = append(*all, d); return nil }}
}

// KindReport marks the JSON of a Document.
const KindReport = "Report"

// Document is a run as -o json writes it. Most other formats derive from it.
type Document struct {
	// version of the format; it grows only if a field is removed or changes its meaning
	V       int    `json:"v"`
	Kind    string `json:"kind"`    // Report
	Version string `json:"version"` // of the program that found the causes
	Run     string `json:"run"`     // the run's ID
	Node    string `json:"node"`    // the examined node
	// Cluster is the examined cluster. It is nil with --via local and in files from older versions.
	Cluster *probe.Cluster `json:"cluster,omitempty"`
	Time    time.Time      `json:"time,omitzero"` // when it began, by the client's clock
	*probe.Verdict
	Causes  []probe.Cause `json:"causes"` // explanations of the bad results, the most likely first
	Methods []Segment     `json:"ways"`
	// the comparison with baseline nodes, in words; the results include their answers
	Contrast []string  `json:"contrast,omitempty"`
	Results  []Located `json:"results"`
	Log      []string  `json:"log,omitempty"` // log lines of the probes
}

// Segment is one access method that was used: the program that answered, and whether its answer is complete.
type Segment struct {
	Method   string    `json:"way"`
	Node     string    `json:"node,omitempty"`   // set if it is not the examined node
	Version  string    `json:"version"`          // of the program that answered
	Time     time.Time `json:"time,omitzero"`    // start time, by the answering machine's clock
	Access   []string  `json:"access,omitempty"` // the probe's actual privileges
	Complete bool      `json:"complete"`         // its answer is complete
	// Elapsed is the time that the answer took, by the same clock. It is 0 if the answer did not finish.
	Elapsed time.Duration `json:"elapsed_ns,omitempty"`
}

// Located is a result with its access method and, if it is not the examined node, its node.
type Located struct {
	Method string `json:"way"`            // the access method of the result
	Node   string `json:"node,omitempty"` // set for a peer's result
	probe.Result
}

func (d *document) Event(ev probe.Event) error {
	switch ev.Type {
	case probe.EventRun:
		d.begun, d.run = *ev.Start, ev.Start.Run
	case probe.EventStart:
		d.run = cmp.Or(d.run, ev.Start.Run) // in older streams only this event has the ID
		d.started = append(d.started, Segment{Method: ev.Method, Node: ev.Node, Version: ev.Start.Version,
			Time:   ev.Start.Time,
			Access: ev.Start.Access})
	case probe.EventEnd:
		for i := range d.started {
			if d.started[i].Method == ev.Method && d.started[i].Node == ev.Node {
				d.started[i].Complete, d.started[i].Elapsed = true, ev.End.Elapsed
			}
		}
	case probe.EventResult:
		d.results = append(d.results, Located{ev.Method, ev.Node, *ev.Result})
	case probe.EventCause:
		d.causes = append(d.causes, *ev.Cause)
	case probe.EventComparison:
		d.lines = append(d.lines, ev.Text)
	case probe.EventLog:
		d.log = append(d.log, ev.Text)
	case probe.EventVerdict:
		return d.write(ev)
	}
	return nil
}

func (d *document) write(ev probe.Event) error {
	for i := range d.results {
		if d.results[i].Node == ev.Node {
			d.results[i].Node = ""
		}
	}
	for i := range d.started {
		if d.started[i].Node == ev.Node {
			d.started[i].Node = ""
		}
	}
	err := d.as(d.w, Document{
		V: probe.Version, Kind: KindReport, Version: probe.Release, Run: d.run, Node: ev.Node, Cluster: d.begun.Cluster,
		Time: d.begun.Time, Verdict: ev.Verdict, Causes: append([]probe.Cause{}, d.causes...),
		Methods: append([]Segment{}, d.started...), Contrast: d.lines, Results: append([]Located{}, d.results...), Log: d.log,
	})
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// own returns the results about the examined node.
func (d Document) own() []Located {
	var out []Located
	for _, r := range d.Results {
		if r.Node == "" {
			out = append(out, r)
		}
	}
	return out
}

// checks counts the checks with an answer about the examined node.
func (d Document) checks() int {
	had := map[string]bool{}
	for _, r := range d.own() {
		had[r.Check] = true
	}
	return len(had)
}

// methods returns the access methods by which the node itself answered.
func (d Document) methods() []string {
	var out []string
	for _, s := range d.Methods {
		if s.Node == "" {
			out = appendNew(out, s.Method)
		}
	}
	return out
}

// began returns when the run began, or zero if that is unknown. Files from older versions have this time only in the
// first segment.
func (d Document) began() time.Time {
	first := d.Time
	if !first.IsZero() {
		return first
	}
	for _, s := range d.Methods {
		if s.Node == "" && (first.IsZero() || s.Time.Before(first) && !s.Time.IsZero()) {
			first = s.Time
		}
	}
	return first
}

// named returns a result's check and target, which identify it within the run.
func (r Located) named() string {
	return printable(strings.TrimSpace(strings.Join([]string{r.Check, r.Target, fromOf(r.Result)}, " ")))
}
