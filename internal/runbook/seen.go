package runbook

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
)

// Result is a result for expressions, the journal and the record.
type Result struct {
	Node   string         `json:"node"` // the node that answered
	Check  string         `json:"check"`
	Target string         `json:"target"`
	From   string         `json:"from"` // the workload pod from whose network it was tested; "" = the node's own network
	Method string         `json:"way"`
	Status string         `json:"status"`
	Saw    string         `json:"saw"`
	Facts  map[string]any `json:"facts"`
	Lines  []string       `json:"lines"`
}

// label names a result. The pod distinguishes results of the same check and target.
func (r Result) label() string {
	name := strings.TrimSpace(r.Check + " " + r.Target)
	if r.From != "" {
		name += " from " + r.From
	}
	return name
}

// Cause is a cause of a node's problem.
type Cause struct {
	Node string `json:"node"` // the node that it is about
	probe.Cause
	Commands []string `json:"commands"` // commands of the fix, for this installation; conditional commands are comments
}

// Asked is one run on one node: its results and its causes.
type Asked struct {
	Node    string   `json:"node"`
	Verdict string   `json:"verdict"` // healthy, warnings, incomplete or fault
	Version string   `json:"version,omitempty"`
	Methods []string `json:"ways"`
	Causes  []Cause  `json:"causes"`
	Results []Result `json:"results"`
	// Lacks is the reason why the answer is incomplete, or "" if it is complete.
	Lacks string `json:"unasked,omitempty"`
}

// The verdicts of a run.
const (
	wordHealthy    = report.WordHealthy
	wordWarnings   = report.WordWarnings
	wordIncomplete = report.WordIncomplete
	wordFault      = report.WordFault
)

// maxAnswers is the maximum size of the results in one record, in bytes of JSON. A node that sends endless results must
// not fill the memory or the disk of the client's machine.
const maxAnswers = 8 << 20

// tooMuch is the reason why results are missing.
const tooMuch = "too many results: a record keeps at most 8 MiB, and drops the rest"

// budget is the remaining room for results in a record, in bytes.
type budget struct{ left atomic.Int64 }

// takes reserves room for a result, and reports whether there was enough.
func (b *budget) takes(r Result) bool { return b.left.Add(-r.size()) >= 0 }

// size returns the size of a result as JSON, in bytes.
func (r Result) size() int64 {
	b, err := json.Marshal(r)
	if err != nil { // writing the step will report the error
		return 0
	}
	return int64(len(b))
}

// reportOf converts a run for the record, with the results for which there is room. err is the reason why the run is
// incomplete.
func reportOf(node string, run report.Run, err error, room *budget) Asked {
	out := Asked{
		Node: node, Version: run.Version, Verdict: wordIncomplete, Methods: []string{}, Causes: []Cause{},
		Results: []Result{},
	}
	for _, c := range run.Causes {
		out.Causes = append(out.Causes, Cause{node, c, copyable(c.Fix)})
	}
	slices.SortStableFunc(out.Causes, func(a, b Cause) int { return cmp.Compare(a.rank(), b.rank()) })
	whole := true
	for _, ev := range run.Events {
		if ev.Method != "" && ev.Node == node && !slices.Contains(out.Methods, ev.Method) {
			out.Methods = append(out.Methods, ev.Method)
		}
		if r := ev.Result; r != nil {
			result := resultOf(cmp.Or(ev.Node, node), ev.Method, r)
			if whole = whole && room.takes(result); whole {
				out.Results = append(out.Results, result)
			}
		}
	}
	switch {
	case err != nil:
		out.Lacks = probe.Plain(err.Error())
	case run.Verdict == nil:
		out.Lacks = cmp.Or(run.Lacks, "the run ended without a verdict")
	default:
		out.Verdict = run.Verdict.Word
	}
	if !whole {
		out.Lacks = strings.TrimPrefix(out.Lacks+"; "+tooMuch, "; ")
		out.Verdict = worse(out.Verdict, wordIncomplete)
	}
	return out
}

func resultOf(node, method string, r *probe.Result) Result {
	facts := map[string]any{}
	for k, v := range r.Facts {
		facts[string(k)] = v
	}
	return Result{
		Node: node, Check: r.Check, Target: r.Target, From: r.From, Method: method, Status: string(r.Status), Saw: r.Saw,
		Facts: facts, Lines: append([]string{}, r.Lines...),
	}
}

// rank sorts load after every other cause above low confidence. A busy node usually has another fault that explains the
// symptom better.
func (c Cause) rank() int {
	switch {
	case c.Confidence == probe.Low:
		return 2
	case c.ID == "node-overloaded":
		return 1
	}
	return 0
}

// copyable returns the commands of a fix that can be copied immediately, and the conditional commands as comments.
func copyable(f probe.Fix) []string {
	out := []string{}
	for _, block := range f.Blocks() {
		if block.If == "" {
			out = append(out, block.Commands...)
			continue
		}
		out = append(out, "# only if "+block.If+":")
		for _, c := range block.Commands {
			out = append(out, "#   "+c)
		}
	}
	return out
}

// Seen holds what expressions read: the results on the runbook's node, or a step's results.
type Seen struct {
	Results  []Result          `json:"results"`
	Causes   []Cause           `json:"causes"`
	Verdict  string            `json:"verdict"`  // the worst verdict of its nodes; "" = no run
	Verdicts map[string]string `json:"verdicts"` // verdict of each node
	Lacks    string            `json:"lacks"`    // why the answer is incomplete; "" if it is complete
	Groups   []Group           `json:"groups"`   // groups of a fleet
}

// seen merges the results of several nodes.
func seen(all ...Asked) Seen {
	s := Seen{Results: []Result{}, Causes: []Cause{}, Verdicts: map[string]string{}, Groups: []Group{}}
	for _, a := range all {
		s.Results = append(s.Results, a.Results...)
		s.Causes = append(s.Causes, a.Causes...)
		s.Verdicts[a.Node] = a.Verdict
		s.Verdict = worse(s.Verdict, a.Verdict)
		if a.Lacks != "" {
			s.Lacks = strings.TrimPrefix(s.Lacks+"; "+a.Lacks, "; ")
		}
	}
	return s
}

// worse returns the worse verdict; "" = no verdict.
func worse(a, b string) string {
	order := []string{"", wordHealthy, wordWarnings, wordIncomplete, wordFault}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// with adds results of the runbook's own checks.
func (s Seen) with(node string, own []Result) Seen {
	if len(own) == 0 {
		return s
	}
	s.Results = slices.Concat(s.Results, own)
	if s.Verdicts[node] == "" {
		s.Verdicts = map[string]string{node: ""}
	}
	for _, r := range own {
		s.Verdict = worse(s.Verdict, map[string]string{
			string(probe.OK): wordHealthy, string(probe.Fail): wordFault,
		}[r.Status])
		if r.Status == string(probe.Unknown) {
			s.Verdict = worse(s.Verdict, wordIncomplete)
		}
	}
	return s
}

// status returns a check's worst result on the examined nodes, or "" if the check did not run. Baseline nodes' results
// do not count.
func (s Seen) status(check string) string {
	worst := -1
	for _, r := range s.Results {
		if _, own := s.Verdicts[r.Node]; r.Check == check && own {
			if at := slices.Index(probe.Statuses(), probe.Status(r.Status)); worst < 0 || at < worst {
				worst = at
			}
		}
	}
	if worst < 0 {
		return ""
	}
	return string(probe.Statuses()[worst])
}

// answered reports whether a check has an answer, good or bad.
func (s Seen) answered(check string) bool {
	return slices.ContainsFunc(s.Results, func(r Result) bool {
		_, own := s.Verdicts[r.Node]
		return own && r.Check == check && r.Status != string(probe.Skip) && r.Status != string(probe.Unknown)
	})
}

// cause reports whether a cause was reported with one of these confidences. If none is given, any confidence counts.
func (s Seen) cause(id string, sure ...probe.Confidence) bool {
	return slices.ContainsFunc(s.Causes, func(c Cause) bool {
		return c.ID == id && (len(sure) == 0 || slices.Contains(sure, c.Confidence))
	})
}

// why explains a verdict: the causes or, if there are none, the failed checks, and what is unknown.
func (s Seen) why() string {
	var parts []string
	for _, c := range s.Causes {
		parts = append(parts, fmt.Sprintf("%s (%s): %s", c.ID, c.Confidence, c.Says))
	}
	if len(s.Causes) == 0 {
		parts = append(append(parts, "no known cause"), s.those("failed", probe.Fail)...)
	}
	parts = append(parts, s.those("unknown", probe.Unknown)...)
	if s.Lacks != "" {
		parts = append(parts, s.Lacks)
	}
	return strings.Join(parts, "; ")
}

// those returns the names of the checks with this status on the examined nodes, or nil if there are no such checks.
func (s Seen) those(what string, status probe.Status) []string {
	var names []string
	for _, r := range s.Results {
		if _, own := s.Verdicts[r.Node]; own && r.Status == string(status) {
			names = append(names, r.label())
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{what + ": " + strings.Join(names, ", ")}
}

// through returns a value as the journal will return it. A resumed runbook then sees the same values, for example
// floats instead of integers.
func through[T any](v T) (T, error) {
	var out T
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		return out, fmt.Errorf("encoding the results: %w", err)
	}
	return out, nil
}
