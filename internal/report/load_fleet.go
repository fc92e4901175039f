package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/calico-probe/calico-probe/probe"
)

// maxFleetHeld is the maximum size of all nodes' answers in memory. About 20,000 nodes need most of it.
const maxFleetHeld = 1 << 30

// loadFleet reads a run over several nodes that was saved with -o ndjson. Each node becomes a run under the node's
// displayed name. is is false for other files.
func loadFleet(b []byte) (saved Saved, is bool, err error) {
	if kind := documentKind(b); kind == KindFleet {
		return saved, true, errors.New("is a JSON report of several nodes, which has only bad results: use -o ndjson")
	}
	d := probe.NewDecoder(bytes.NewReader(b))
	next, held, whole := int64(0), 0, false
	at := map[string]int{} // index of each run, by node
	for {
		ev, err := d.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = readable(ev)
		}
		if err != nil {
			return saved, saved.Fleet != nil, err
		}
		if saved.Fleet == nil && (ev.Type != probe.EventRun || ev.Node != "") {
			return saved, false, nil
		}
		if held += ev.Held(); held > maxFleetHeld {
			return saved, true, fmt.Errorf("has more than %d MiB of answers, too many for a run", maxFleetHeld>>20)
		}
		lost := ev.Seq != next
		next = ev.Seq + 1
		switch {
		case saved.Fleet == nil:
			saved.Fleet = ev.Start
		case ev.Node == "" && ev.Type == probe.EventVerdict:
			saved.Elapsed, whole = ev.Verdict.Elapsed, true
		case ev.Node == "": // skip the groups, which are recomputed
		default:
			run := saved.runOf(cmp.Or(ev.For, ev.Node), at) // a baseline node's answers belong to the node compared with it
			lost = lost || run.Verdict != nil               // the node is in the file twice
			ev.For = ""
			run.Add(ev)
			if lost {
				run.Lacks = "lines of it are missing or damaged"
			}
		}
	}
	if saved.Fleet == nil {
		return saved, false, nil
	}
	for i := range saved.Runs {
		if run := &saved.Runs[i]; run.Verdict == nil {
			run.Lacks = "it ends before its verdict"
		}
	}
	if len(saved.Runs) == 0 {
		return saved, true, errNoRun
	}
	saved.Cut = !whole
	return saved, true, nil
}

// runOf returns a node's run. If the displayed name is not known yet, it creates a new run. at holds the index of each
// run.
func (s *Saved) runOf(node string, at map[string]int) *Run {
	name := probe.Line(node)
	if _, known := at[name]; !known {
		at[name] = len(s.Runs)
		s.Runs = append(s.Runs, Run{Node: node})
	}
	return &s.Runs[at[name]]
}

// documentKind returns the kind of a JSON document, or "" for anything else.
func documentKind(b []byte) string {
	var first struct {
		Kind string `json:"kind"`
	}
	if json.NewDecoder(bytes.NewReader(b)).Decode(&first) != nil {
		return ""
	}
	return first.Kind
}
