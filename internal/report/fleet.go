package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// KindFleet marks the JSON of a Fleet.
const KindFleet = "FleetReport"

// Fleet is a run over several nodes as -o json writes it. Most other formats derive from it.
type Fleet struct {
	V       int            `json:"v"`
	Kind    string         `json:"kind"`    // FleetReport
	Version string         `json:"version"` // of the program that found the causes
	Run     string         `json:"run"`     // the run's ID
	Cluster *probe.Cluster `json:"cluster,omitempty"`
	Time    time.Time      `json:"time,omitzero"` // when it began, by the client's clock
	*probe.Verdict
	Verdicts map[string]int `json:"verdicts"` // the number of nodes with each verdict
	Groups   []probe.Group  `json:"groups"`   // nodes with the same cause, the largest group first
	Nodes    []FleetNode    `json:"nodes"`
	Log      []string       `json:"log,omitempty"` // why it did not finish
}

// FleetNode is one node of a Fleet.
type FleetNode struct {
	Node string `json:"node"`
	Zone string `json:"zone,omitempty"`
	*probe.Verdict
	Causes  []probe.Cause `json:"causes"`
	Results []Located     `json:"results"`                // the answers that are fail, warn or unknown
	More    int           `json:"more_results,omitempty"` // number of further answers that were dropped
	Methods []string      `json:"ways"`                   // access methods by which it answered
}

// maxOfNode is the maximum number of a node's bad answers to keep. A node with only bad answers must not use as much
// memory as thousands of nodes.
const maxOfNode = 200

// fleet collects the events of a run over several nodes, and passes them on once the fleet's verdict is known.
type fleet struct {
	w   io.Writer
	as  func(io.Writer, Fleet) error
	all Fleet
	now FleetNode // the node that the current events are about
}

func newFleet(w io.Writer, as func(io.Writer, Fleet) error) *fleet {
	return &fleet{w: w, as: as, all: Fleet{V: probe.Version, Kind: KindFleet, Version: probe.Release,
		Verdicts: map[string]int{}, Groups: []probe.Group{}, Nodes: []FleetNode{}}}
}

func (f *fleet) Event(ev probe.Event) error {
	if ev.For != "" { // the event is from a baseline node: the causes and their evidence show what follows from it
		return nil
	}
	switch ev.Type {
	case probe.EventRun:
		if ev.Node != "" {
			f.now.Zone = zoneOf(ev.Start.Attributes)
			return nil
		}
		f.all.Run, f.all.Time, f.all.Cluster = ev.Start.Run, ev.Start.Time, ev.Start.Cluster
	case probe.EventStart:
		f.now.Methods = appendNew(f.now.Methods, ev.Method)
	case probe.EventResult:
		switch {
		case quiet(ev.Result.Status):
		case len(f.now.Results) == maxOfNode:
			f.now.More++
		default:
			f.now.Results = append(f.now.Results, Located{Method: ev.Method, Result: *ev.Result})
		}
	case probe.EventCause:
		f.now.Causes = append(f.now.Causes, *ev.Cause)
	case probe.EventLog:
		if ev.Node == "" {
			f.all.Log = append(f.all.Log, ev.Text)
		}
	case probe.EventGroup:
		f.all.Groups = append(f.all.Groups, *ev.Group)
	case probe.EventVerdict:
		if ev.Node == "" {
			return f.write(ev)
		}
		f.all.Verdicts[ev.Verdict.Word]++
		f.now.Node, f.now.Verdict = ev.Node, ev.Verdict
		f.now.Causes, f.now.Results = append([]probe.Cause{}, f.now.Causes...), append([]Located{}, f.now.Results...)
		f.all.Nodes, f.now = append(f.all.Nodes, f.now), FleetNode{}
	}
	return nil
}

// zoneOf returns the zone from a node's attributes, or "" if there is none.
func zoneOf(attributes []string) string {
	for _, pair := range attributes {
		if zone, is := strings.CutPrefix(pair, "zone="); is {
			return zone
		}
	}
	return ""
}

func (f *fleet) write(ev probe.Event) error {
	f.all.Verdict = ev.Verdict
	if err := f.as(f.w, f.all); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// methods returns the access methods by which nodes answered.
func (f Fleet) methods() []string {
	var out []string
	for _, n := range f.Nodes {
		for _, method := range n.Methods {
			out = appendNew(out, method)
		}
	}
	return out
}

// unasked counts the nodes that were judged by the API alone.
func (f Fleet) unasked() int {
	count := 0
	for _, n := range f.Nodes {
		if slices.Equal(n.Methods, []string{"api"}) {
			count++
		}
	}
	return count
}

// CollectFleet returns a sink. Once the verdict of a run over several nodes has arrived, the sink stores the run in to.
func CollectFleet(to *Fleet) Sink {
	return newFleet(nil, func(_ io.Writer, all Fleet) error { *to = all; return nil })
}

// collectEach turns each node of a fleet into a document.
type collectEach struct {
	all *[]Document
	now Sink // sink for the node that the current events are about
}

// CollectEach returns a sink that appends the run of each node in a fleet to all.
func CollectEach(all *[]Document) Sink { return &collectEach{all: all} }

func (c *collectEach) Event(ev probe.Event) error {
	if ev.Node == "" {
		return nil
	}
	if c.now == nil {
		c.now = Collect(c.all)
	}
	err := c.now.Event(ev)
	if ev.Type == probe.EventVerdict {
		c.now = nil
	}
	return err
}
