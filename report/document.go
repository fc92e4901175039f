package report

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/calico-probe/calico-probe/probe"
)

// document is the whole run as one JSON value, written with the verdict.
type document struct {
	w       io.Writer
	run     string
	started []segment
	results []located
	causes  []probe.Cause
	log     []string
	lines   []string // of the contrast
}

// saved is the document as it is written.
type saved struct {
	V       int    `json:"v"`
	Kind    string `json:"kind"`
	Version string `json:"version"`
	Run     string `json:"run"`
	Node    string `json:"node"`
	*probe.Verdict
	Causes   []probe.Cause `json:"causes"`
	Ways     []segment     `json:"ways"`
	Contrast []string      `json:"contrast,omitempty"` // in words; the peers' answers are among the results
	Results  []located     `json:"results"`
	Log      []string      `json:"log,omitempty"`
}

// segment is one way that was used: what answered, and whether it ended.
type segment struct {
	Way      string   `json:"way"`
	Node     string   `json:"node,omitempty"` // where that is not the one in question
	Version  string   `json:"version"`
	Access   []string `json:"access,omitempty"`
	Complete bool     `json:"complete"`
}

// located is a result with the way it came, and its node where that is not the one
// in question.
type located struct {
	Way  string `json:"way"`
	Node string `json:"node,omitempty"`
	probe.Result
}

func (d *document) Event(ev probe.Event) error {
	switch ev.Type {
	case probe.EventStart:
		d.run = ev.Start.Run
		d.started = append(d.started, segment{Way: ev.Way, Node: ev.Node, Version: ev.Start.Version, Access: ev.Start.Access})
	case probe.EventEnd:
		for i := range d.started {
			if d.started[i].Way == ev.Way && d.started[i].Node == ev.Node {
				d.started[i].Complete = true
			}
		}
	case probe.EventResult:
		d.results = append(d.results, located{ev.Way, ev.Node, *ev.Result})
	case probe.EventCause:
		d.causes = append(d.causes, *ev.Cause)
	case probe.EventContrast:
		d.lines = append(d.lines, ev.Text)
	case probe.EventLog:
		d.log = append(d.log, ev.Text)
	case probe.EventVerdict:
		return d.write(ev)
	}
	return nil
}

func (d *document) write(ev probe.Event) error {
	enc := json.NewEncoder(d.w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
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
	err := enc.Encode(saved{
		V: probe.Version, Kind: "Report", Version: probe.Release, Run: d.run, Node: ev.Node, Verdict: ev.Verdict, Causes: append([]probe.Cause{}, d.causes...),
		Ways: append([]segment{}, d.started...), Contrast: d.lines, Results: append([]located{}, d.results...), Log: d.log,
	})
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
