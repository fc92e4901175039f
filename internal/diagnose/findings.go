package diagnose

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// Finding is one result and the node it comes from.
type Finding struct {
	Node   string // the node where the check ran
	Method string
	probe.Result
}

// Findings are all of a run's results: about the diagnosed node and, if the run checked them, about its peers.
type Findings struct {
	Node string // the diagnosed node
	All  []Finding

	byCheck map[string][]Finding // All by check; set by Indexed
	suite   Suite                // the rules that explain them
	there   []RemoteCause        // causes on the other nodes that this node's packets do not reach; see causesThere
	reads   *[]string            // records the checks that a match reads; nil = not recorded; see WhyOf
	isThere bool                 // these findings explain another node, for a cause of the diagnosed node
}

// The maximum number of results that rules read for one check on one node. The limit is needed because a node can send
// any number of results, rules compare results with each other, and each bad result may become a case.
const (
	maxBad    = 100
	maxOthers = 2000
)

// Indexed returns the findings in the form that rules read: without history, and indexed by check.
func (f Findings) Indexed() Findings {
	type kind struct {
		node, check string
		bad         bool
	}
	read := map[kind]int{}
	out := Findings{Node: f.Node, byCheck: map[string][]Finding{}, suite: f.suite, there: f.there, isThere: f.isThere}
	for _, r := range f.All {
		if r.Facts[probe.FactHistory] == true { // history is not evidence
			continue
		}
		of := kind{r.Node, r.Check, IsBad(r.Status)}
		most := maxOthers
		if of.bad {
			most = maxBad
		}
		if read[of]++; read[of] > most {
			continue
		}
		out.All = append(out.All, r)
		out.byCheck[r.Check] = append(out.byCheck[r.Check], r)
	}
	return out
}

// of returns the results of a check on all nodes.
func (f Findings) of(check string) []Finding {
	if f.reads != nil && !slices.Contains(*f.reads, check) {
		*f.reads = append(*f.reads, check)
	}
	if f.byCheck != nil {
		return f.byCheck[check]
	}
	return Keep(f.All, func(r Finding) bool { return r.Check == check })
}

// Add adds the results of an event. The first event with a node name sets the diagnosed node.
func (f *Findings) Add(ev probe.Event) {
	if f.Node == "" {
		f.Node = ev.Node
	}
	if ev.Type == probe.EventResult && ev.Result != nil {
		r := *ev.Result
		r.Facts = travelled(r.Facts)
		f.All = append(f.All, Finding{Node: ev.Node, Method: ev.Method, Result: r})
	}
}

// travelled converts facts to the types that they have in a saved run, so rules see the same types in live and saved
// runs. In a saved run, a list of texts is a []any.
func travelled(facts probe.Facts) probe.Facts {
	b, err := json.Marshal(facts)
	var out probe.Facts
	if err != nil || json.Unmarshal(b, &out) != nil {
		return facts // a saved run cannot contain these facts
	}
	return out
}

// LastWord returns the last word of a target, or "" if there is none: a node may send a blank target.
func LastWord(target string) string {
	words := strings.Fields(target)
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// At returns the findings with another diagnosed node.
func (f Findings) At(node string) Findings {
	f.Node = node
	return f
}

// Others returns the other nodes with results.
func (f Findings) Others() []string {
	var out []string
	for _, r := range f.All {
		if r.Node != "" && r.Node != f.Node && !slices.Contains(out, r.Node) {
			out = append(out, r.Node)
		}
	}
	return out
}

// Of returns the results of a check on the diagnosed node.
func (f Findings) Of(check string) []Finding {
	return f.those(check, Everything)
}

// Elsewhere returns the results of a check on other nodes.
func (f Findings) Elsewhere(check string) []Finding {
	var out []Finding
	for _, r := range f.of(check) {
		if r.Node != f.Node {
			out = append(out, r)
		}
	}
	return out
}

// Bad returns the results of a check that are fail or warn.
func (f Findings) Bad(check string) []Finding {
	return f.those(check, func(r Finding) bool { return IsBad(r.Status) })
}

// Failed returns the results of a check that are fail.
func (f Findings) Failed(check string) []Finding {
	return f.those(check, func(r Finding) bool { return r.Status == probe.Fail })
}

// With returns the results in which a fact has this value. It compares numbers as numbers.
func (f Findings) With(check string, key probe.Fact, value any) []Finding {
	return f.those(check, func(r Finding) bool { return Holds(r.Facts, key, value) })
}

// Answered reports whether a check has a good or bad result.
func (f Findings) Answered(check string) bool {
	return len(f.those(check, func(r Finding) bool { return IsAnswered(r.Status) })) > 0
}

// Fine reports whether a check has results, and all are good.
func (f Findings) Fine(check string) bool {
	of := f.Of(check)
	return f.Answered(check) && !slices.ContainsFunc(of, func(r Finding) bool {
		return IsBad(r.Status) ||
			r.Status == probe.Unknown
	})
}

// those returns a check's results on the node in question that keep accepts.
func (f Findings) those(check string, keep func(Finding) bool) []Finding {
	var out []Finding
	for _, r := range f.of(check) {
		if r.Node == f.Node && keep(r) {
			out = append(out, r)
		}
	}
	return out
}

func (f Findings) Where(keep func(Finding) bool) []Finding {
	var out []Finding
	for _, r := range f.All {
		if r.Node == f.Node && keep(r) {
			out = append(out, r)
		}
	}
	return out
}

// Good returns the good results of a check.
func Good(f Findings, check string) []Finding {
	return f.those(check, func(r Finding) bool { return r.Status == probe.OK })
}

// Because returns a filter for findings with one of these reasons.
func Because(reasons ...string) func(Finding) bool {
	return func(r Finding) bool { return slices.Contains(reasons, ReasonOf(r)) }
}

// About returns a filter for findings about exactly these targets.
func About(targets ...string) func(Finding) bool {
	return func(r Finding) bool { return slices.Contains(targets, r.Target) }
}

func IsBad(s probe.Status) bool { return s == probe.Fail || s == probe.Warn }

func IsAnswered(s probe.Status) bool { return s != probe.Unknown && s != probe.Skip }

func Holds(facts probe.Facts, key probe.Fact, value any) bool {
	have, there := facts[key]
	if !there {
		return false
	}
	if a, ok := facts.Num(key); ok {
		b, ok := (probe.Facts{key: value}).Num(key)
		return ok && a == b
	}
	return have == value
}
