package report

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Run is a saved run.
type Run struct {
	Node    string // the examined node
	Version string // version of the program that saved it
	Events  []probe.Event
	// Causes and Verdict are that program's conclusions. They are nil if the run was cut off.
	Causes  []probe.Cause
	Verdict *probe.Verdict
	// Lacks is the reason why the run is incomplete, or "" if it is complete.
	Lacks string
}

// maxRun is the maximum size of a file. The limit is needed because the file's author may be hostile. A run with
// sessions to a thousand nodes has a few MB.
const maxRun = 256 << 20

// errNoRun is the error for a file that is not a saved run.
var errNoRun = errors.New("is not a file of 'run -o ndjson', 'run -o json' or 'shell --transcript'")

// Saved is the content of a file. The file contains a run, or a session's transcript. From a transcript, each node's
// latest answers become a run, and the commands are kept.
type Saved struct {
	Runs  []Run
	Deeds []Deed // nil = not a transcript
	// Fleet is the start event of a run over several nodes. It is nil for other files. Elapsed is that run's duration.
	Fleet   *probe.Start
	Elapsed time.Duration
	Cut     bool // the file ends before the fleet's verdict, so nodes may be missing
}

// Load reads a file saved with -o ndjson, -o json or --transcript, and recognizes its format. It cleans all texts,
// because the file may come from a stranger.
func Load(r io.Reader) (Saved, error) {
	saved, err := load(r, maxRun)
	if saved.Fleet != nil {
		saved.Fleet = probe.Event{Type: probe.EventRun, Start: saved.Fleet}.Cleaned().Start
	}
	for i := range saved.Runs {
		run := &saved.Runs[i]
		run.Node, run.Version = probe.Line(run.Node), probe.Line(run.Version)
		for j, ev := range run.Events {
			run.Events[j] = ev.Cleaned()
		}
	}
	return saved, err
}

func load(r io.Reader, longest int64) (Saved, error) {
	in := bufio.NewReaderSize(r, probe.MaxLine)
	first, err := in.ReadSlice('\n')
	first = bytes.Clone(first)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return Saved{}, fmt.Errorf("reading a saved run: %w", err)
	}
	r = io.MultiReader(bytes.NewReader(first), in)
	if isTranscript(first) {
		runs, deeds, err := loadTranscript(r)
		return Saved{Runs: runs, Deeds: append([]Deed{}, deeds...)}, err
	}
	b, err := io.ReadAll(io.LimitReader(r, longest+1))
	switch {
	case err != nil:
		return Saved{}, fmt.Errorf("reading a saved run: %w", err)
	case int64(len(b)) > longest:
		return Saved{}, fmt.Errorf("has more than %d MB, too large for a saved run", longest>>20)
	}
	if saved, is, err := loadFleet(b); is {
		return saved, err
	}
	run, err := loadRun(b)
	return Saved{Runs: []Run{run}}, err
}

func loadRun(b []byte) (Run, error) {
	var first struct {
		V    int             `json:"v"`
		Kind string          `json:"kind"`
		Type probe.EventType `json:"type"`
	}
	err := json.NewDecoder(bytes.NewReader(b)).Decode(&first)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) && bytes.Contains(b[:min(len(b), 100)], []byte(`"kind": "Report"`)):
		return Run{}, errors.New("is a truncated JSON report: only -o ndjson files can be read if truncated")
	case err == nil && first.Kind == KindReport && first.V <= probe.Version:
		return loadDocument(b)
	case err == nil && first.Kind == KindReport:
		return Run{}, newer(first.V)
	}
	return loadStream(b)
}

// maxHeld is the maximum size of a run in memory: twice the answers of a node, of two baseline nodes and of the API.
const maxHeld = 32 * probe.MaxHeld

// readable rejects events from a newer client. It ignores a node's version, because the client has already read the
// node's events.
func readable(ev probe.Event) error {
	if ev.Start != nil && ev.Type != probe.EventStart && ev.Start.V > probe.Version {
		return newer(ev.Start.V)
	}
	return nil
}

func newer(v int) error {
	return fmt.Errorf("was saved by a newer calico-probe (wire format %d; this version reads up to %d)", v, probe.Version)
}

func loadStream(b []byte) (Run, error) {
	var run Run
	d := probe.NewDecoder(bytes.NewReader(b))
	odd, held, lost, next := 0, 0, false, int64(0)
	d.Noise = func(string) { odd++ }
	for {
		ev, err := d.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Run{}, err
		}
		if err := readable(ev); err != nil {
			return Run{}, err
		}
		if held += ev.Held(); held > maxHeld {
			return Run{}, fmt.Errorf("has more than %d MiB of answers, too many for a run", maxHeld>>20)
		}
		lost = lost || ev.Seq != next
		next = ev.Seq + 1
		run.Add(ev)
	}
	switch {
	case len(run.Events) == 0:
		return Run{}, errNoRun
	case run.Verdict == nil:
		run.Lacks = "it ends before its verdict"
	case lost || odd > 0:
		run.Lacks = "lines of it are missing or damaged"
	}
	return run, nil
}

// Add records an event. It keeps the saved conclusions separate from the results.
func (run *Run) Add(ev probe.Event) {
	switch ev.Type {
	case probe.EventComparison:
	case probe.EventCause:
		run.Causes = append(run.Causes, *ev.Cause)
	case probe.EventVerdict:
		run.Node, run.Verdict = ev.Node, ev.Verdict
	default:
		if ev.Start != nil && run.Version == "" {
			run.Version = ev.Start.Version
		}
		if run.Node == "" {
			run.Node = ev.Node
		}
		run.Events = append(run.Events, ev)
	}
}

// begun returns the event that begins a run.
func begun(node string, s probe.Start) probe.Event {
	return probe.Event{Type: probe.EventRun, Node: node, Start: &s}
}

// begun returns the run's cluster and time. They are empty in files from older versions.
func (run Run) begun() probe.Start {
	for _, ev := range run.Events {
		if ev.Type == probe.EventRun {
			return *ev.Start
		}
	}
	return probe.Start{}
}

// loadDocument turns a document back into events. The order of events is kept only within an access method.
func loadDocument(b []byte) (Run, error) {
	var d Document
	if err := json.Unmarshal(b, &d); err != nil {
		return Run{}, fmt.Errorf("is not a JSON report: %w", err)
	}
	if d.Verdict == nil || d.Node == "" {
		return Run{}, errNoRun
	}
	run := Run{Node: d.Node, Version: d.Version, Causes: d.Causes, Verdict: d.Verdict}
	if !d.Time.IsZero() {
		run.Events = append(run.Events, begun(d.Node, probe.Start{V: probe.Version, Version: d.Version, Run: d.Run,
			Time: d.Time, Cluster: d.Cluster}))
	}
	// The client's results about an access method precede the answers from this method, but are not part of these answers.
	of := func(s Segment, r Located) bool {
		return r.Method == s.Method && r.Node == s.Node && r.Check != probe.CheckPlaced
	}
	begins, ends := map[int]Segment{}, map[int]Segment{} // by the index of the first and last result of an access method
	for _, s := range d.Methods {
		first := slices.IndexFunc(d.Results, func(r Located) bool { return of(s, r) })
		last := first
		for i, r := range d.Results {
			if of(s, r) {
				last = i
			}
		}
		if first < 0 { // without a result, it comes last
			continue
		}
		begins[first], ends[last] = s, s
	}
	for i, r := range d.Results {
		if s, is := begins[i]; is {
			run.Events = append(run.Events, d.start(s))
		}
		run.Events = append(run.Events, probe.Event{Type: probe.EventResult, Node: d.nodeOf(r.Node), Method: r.Method,
			Result: &r.Result})
		if s, is := ends[i]; is {
			run.Events = append(run.Events, d.end(s)...)
		}
	}
	for _, s := range d.Methods {
		if !slices.ContainsFunc(d.Results, func(r Located) bool { return of(s, r) }) {
			run.Events = append(append(run.Events, d.start(s)), d.end(s)...)
		}
	}
	for _, text := range d.Log {
		run.Events = append(run.Events, probe.Event{Type: probe.EventLog, Text: text, Node: d.Node})
	}
	return run, nil
}

// nodeOf returns a node's name. In the document, "" stands for the examined node.
func (d Document) nodeOf(name string) string { return cmp.Or(name, d.Node) }

func (d Document) start(s Segment) probe.Event {
	node := d.nodeOf(s.Node)
	return probe.Event{Type: probe.EventStart, Node: node, Method: s.Method, Start: &probe.Start{
		V: probe.Version, Version: s.Version, Run: d.Run, Node: node, Method: s.Method, Time: s.Time, Access: s.Access,
	}}
}

// end returns an access method's end event, or none if the answer is incomplete.
func (d Document) end(s Segment) []probe.Event {
	if !s.Complete {
		return nil
	}
	return []probe.Event{{Type: probe.EventEnd, Node: d.nodeOf(s.Node), Method: s.Method,
		End: &probe.End{Elapsed: s.Elapsed}}}
}
