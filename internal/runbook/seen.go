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

// Result is an answer as expressions, the journal and the record have it.
type Result struct {
	Node   string         `json:"node"` // that answered
	Check  string         `json:"check"`
	Target string         `json:"target"`
	From   string         `json:"from"` // the workload pod out of whose network it was asked, "" = the node's own
	Way    string         `json:"way"`
	Status string         `json:"status"`
	Saw    string         `json:"saw"`
	Facts  map[string]any `json:"facts"`
	Lines  []string       `json:"lines"`
}

// label names a result: two that differ in the pod they were asked from are not alike.
func (r Result) label() string {
	name := strings.TrimSpace(r.Check + " " + r.Target)
	if r.From != "" {
		name += " from " + r.From
	}
	return name
}

// Cause is a cause concluded about a node.
type Cause struct {
	Node string `json:"node"` // it is about
	probe.Cause
	Commands []string `json:"commands"` // of the fix, for the install there is; as comments those under a condition
}

// Asked is one run on one node: what it answered, and what was made of it.
type Asked struct {
	Node    string   `json:"node"`
	Verdict string   `json:"verdict"` // healthy, warnings, incomplete or fault
	Version string   `json:"version,omitempty"`
	Ways    []string `json:"ways"`
	Causes  []Cause  `json:"causes"`
	Results []Result `json:"results"`
	// Unasked is why there is no whole answer, "" when there is.
	Unasked string `json:"unasked,omitempty"`
}

// The verdicts of what was asked; incomplete where something was not had.
const (
	wordHealthy    = report.WordHealthy
	wordWarnings   = report.WordWarnings
	wordIncomplete = report.WordIncomplete
	wordFault      = report.WordFault
)

// mostAnswers is how much the results of one record may take, in bytes of JSON: a node that
// talks without end is not to fill the memory or the disk of the machine that runs a runbook.
const mostAnswers = 8 << 20

// tooMuch is why results are missing that were had.
const tooMuch = "says too much: some of its results are left out, as a record keeps at most 8 MiB of them"

// budget is how many bytes of results a record still has room for.
type budget struct{ left atomic.Int64 }

// takes tells whether there is room for a result, and takes that room.
func (b *budget) takes(r Result) bool { return b.left.Add(-r.size()) >= 0 }

// size is how many bytes of JSON a result takes.
func (r Result) size() int64 {
	b, err := json.Marshal(r)
	if err != nil { // the step fails when it is written
		return 0
	}
	return int64(len(b))
}

// asked takes from a run what a runbook needs, of the results those that there is room for.
// The error is why there is no whole answer.
func asked(node string, run report.Run, err error, room *budget) Asked {
	out := Asked{
		Node: node, Version: run.Version, Verdict: wordIncomplete, Ways: []string{}, Causes: []Cause{}, Results: []Result{},
	}
	for _, c := range run.Causes {
		out.Causes = append(out.Causes, Cause{node, c, copyable(c.Fix)})
	}
	slices.SortStableFunc(out.Causes, func(a, b Cause) int { return cmp.Compare(a.rank(), b.rank()) })
	whole := true
	for _, ev := range run.Events {
		if ev.Way != "" && ev.Node == node && !slices.Contains(out.Ways, ev.Way) {
			out.Ways = append(out.Ways, ev.Way)
		}
		if r := ev.Result; r != nil {
			result := resultOf(cmp.Or(ev.Node, node), ev.Way, r)
			if whole = whole && room.takes(result); whole {
				out.Results = append(out.Results, result)
			}
		}
	}
	switch {
	case err != nil:
		out.Unasked = probe.Plain(err.Error())
	case run.Verdict == nil:
		out.Unasked = cmp.Or(run.Lacks, "the run ended without a verdict")
	default:
		out.Verdict = run.Verdict.Word
	}
	if !whole {
		out.Unasked = strings.TrimPrefix(out.Unasked+"; "+tooMuch, "; ")
		out.Verdict = worse(out.Verdict, wordIncomplete)
	}
	return out
}

func resultOf(node, way string, r *probe.Result) Result {
	facts := map[string]any{}
	for k, v := range r.Facts {
		facts[string(k)] = v
	}
	return Result{
		Node: node, Check: r.Check, Target: r.Target, From: r.From, Way: way, Status: string(r.Status), Saw: r.Saw,
		Facts: facts, Lines: append([]string{}, r.Lines...),
	}
}

// rank puts load behind every other cause that is more than suspected: a busy node has
// other faults too, and most of them say more about the symptom.
func (c Cause) rank() int {
	switch {
	case c.Confidence == probe.Low:
		return 2
	case c.ID == "node-overloaded":
		return 1
	}
	return 0
}

// copyable are the commands of a fix that may be copied at once; below them, as comments,
// those that are right under a condition alone.
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

// Seen is what expressions read: of the node of the runbook, or of a step.
type Seen struct {
	Results  []Result          `json:"results"`
	Causes   []Cause           `json:"causes"`
	Verdict  string            `json:"verdict"`  // the worst where several nodes were asked, "" where none was
	Verdicts map[string]string `json:"verdicts"` // of each node
	Lacks    string            `json:"lacks"`    // why there is no whole answer, "" where there is
	Groups   []Group           `json:"groups"`   // of a fleet
}

// seen puts together what several nodes were asked.
func seen(all ...Asked) Seen {
	s := Seen{Results: []Result{}, Causes: []Cause{}, Verdicts: map[string]string{}, Groups: []Group{}}
	for _, a := range all {
		s.Results = append(s.Results, a.Results...)
		s.Causes = append(s.Causes, a.Causes...)
		s.Verdicts[a.Node] = a.Verdict
		s.Verdict = worse(s.Verdict, a.Verdict)
		if a.Unasked != "" {
			s.Lacks = strings.TrimPrefix(s.Lacks+"; "+a.Unasked, "; ")
		}
	}
	return s
}

// worse is the verdict that weighs more; "" is none.
func worse(a, b string) string {
	order := []string{"", wordHealthy, wordWarnings, wordIncomplete, wordFault}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// with adds the results of checks of the runbook's own.
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

// status is the worst answer of a check on the nodes asked, "" where it was not asked.
// What other nodes answered beside them does not count.
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

// asked tells whether a check has an answer, good or bad.
func (s Seen) asked(check string) bool {
	return slices.ContainsFunc(s.Results, func(r Result) bool {
		_, own := s.Verdicts[r.Node]
		return own && r.Check == check && r.Status != string(probe.Skip) && r.Status != string(probe.Unknown)
	})
}

// cause tells whether a cause was named, with one of these confidences; none = any.
func (s Seen) cause(id string, sure ...probe.Confidence) bool {
	return slices.ContainsFunc(s.Causes, func(c Cause) bool {
		return c.ID == id && (len(sure) == 0 || slices.Contains(sure, c.Confidence))
	})
}

// why is what makes the verdict what it is: the causes, or what is bad without one, and
// what is not known.
func (s Seen) why() string {
	var parts []string
	for _, c := range s.Causes {
		parts = append(parts, fmt.Sprintf("%s (%s): %s", c.ID, c.Confidence, c.Says))
	}
	if len(s.Causes) == 0 {
		parts = append(append(parts, "no cause was named"), s.those("failed", probe.Fail)...)
	}
	parts = append(parts, s.those("not known", probe.Unknown)...)
	if s.Lacks != "" {
		parts = append(parts, s.Lacks)
	}
	return strings.Join(parts, "; ")
}

// those names the checks of the nodes asked that have such an answer; nothing where none has.
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

// through is a value as it comes back from the journal: a run that is resumed sees the
// same numbers as one that was not.
func through[T any](v T) (T, error) {
	var out T
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		return out, fmt.Errorf("keeping what was seen: %w", err)
	}
	return out, nil
}
