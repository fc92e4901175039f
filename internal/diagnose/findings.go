package diagnose

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// Finding is one result and where it was seen.
type Finding struct {
	Node string // on which it was asked
	Way  string
	probe.Result
}

// Findings are what a run saw: about the node in question, and about its peers
// where they were asked too.
type Findings struct {
	Node string // the one in question
	All  []Finding

	byCheck map[string][]Finding // All of each check, where it was indexed
	suite   Suite                // by which they are explained
	there   []RemoteCause        // causes on other nodes to which this node's packets are lost; see causesThere
	reads   *[]string            // the checks that a match has read, nil where nothing keeps them; see WhyOf
	isThere bool                 // it is another node that is explained, for a cause of the node in question
}

// What rules read of one check on one node: they compare results with each other, and a node
// can give many. Each bad one may make a case.
const (
	mostBad    = 100
	mostOthers = 2000
)

// Indexed is what rules read of the findings, without history, and with the results of a check found quickly.
func (f Findings) Indexed() Findings {
	type kind struct {
		node, check string
		bad         bool
	}
	read := map[kind]int{}
	out := Findings{Node: f.Node, byCheck: map[string][]Finding{}, suite: f.suite, there: f.there, isThere: f.isThere}
	for _, r := range f.All {
		if r.Facts[probe.FactHistory] == true { // evidence of nothing
			continue
		}
		of := kind{r.Node, r.Check, IsBad(r.Status)}
		most := mostOthers
		if of.bad {
			most = mostBad
		}
		if read[of]++; read[of] > most {
			continue
		}
		out.All = append(out.All, r)
		out.byCheck[r.Check] = append(out.byCheck[r.Check], r)
	}
	return out
}

// of are the results of a check on all nodes.
func (f Findings) of(check string) []Finding {
	if f.reads != nil && !slices.Contains(*f.reads, check) {
		*f.reads = append(*f.reads, check)
	}
	if f.byCheck != nil {
		return f.byCheck[check]
	}
	return Keep(f.All, func(r Finding) bool { return r.Check == check })
}

// Add takes the results out of a run's events. The first event that names a node
// names the one in question.
func (f *Findings) Add(ev probe.Event) {
	if f.Node == "" {
		f.Node = ev.Node
	}
	if ev.Type == probe.EventResult && ev.Result != nil {
		r := *ev.Result
		r.Facts = travelled(r.Facts)
		f.All = append(f.All, Finding{Node: ev.Node, Way: ev.Way, Result: r})
	}
}

// travelled gives facts the types they have in a saved run, where a list of texts is
// a []any: a rule sees the same in both.
func travelled(facts probe.Facts) probe.Facts {
	b, err := json.Marshal(facts)
	var out probe.Facts
	if err != nil || json.Unmarshal(b, &out) != nil {
		return facts // which no saved run can have
	}
	return out
}

// LastWord is the last word of a target, "" where it has none: a node may answer with a blank one.
func LastWord(target string) string {
	words := strings.Fields(target)
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// At is what was seen on another node, as if that were the one in question.
func (f Findings) At(node string) Findings {
	f.Node = node
	return f
}

// Others are the other nodes that were asked.
func (f Findings) Others() []string {
	var out []string
	for _, r := range f.All {
		if r.Node != "" && r.Node != f.Node && !slices.Contains(out, r.Node) {
			out = append(out, r.Node)
		}
	}
	return out
}

// Of are the results of a check on the node in question.
func (f Findings) Of(check string) []Finding {
	return f.those(check, Everything)
}

// Elsewhere are the results of a check on other nodes.
func (f Findings) Elsewhere(check string) []Finding {
	var out []Finding
	for _, r := range f.of(check) {
		if r.Node != f.Node {
			out = append(out, r)
		}
	}
	return out
}

// Bad are those that are fail or warn.
func (f Findings) Bad(check string) []Finding {
	return f.those(check, func(r Finding) bool { return IsBad(r.Status) })
}

// Failed are those that are fail.
func (f Findings) Failed(check string) []Finding {
	return f.those(check, func(r Finding) bool { return r.Status == probe.Fail })
}

// With are those that carry the fact with that value; a number compares as a number.
func (f Findings) With(check string, key probe.Fact, value any) []Finding {
	return f.those(check, func(r Finding) bool { return Holds(r.Facts, key, value) })
}

// Answered tells whether a check gave a good or bad answer.
func (f Findings) Answered(check string) bool {
	return len(f.those(check, func(r Finding) bool { return IsAnswered(r.Status) })) > 0
}

// Fine tells whether a check was answered, and every answer was good.
func (f Findings) Fine(check string) bool {
	of := f.Of(check)
	return f.Answered(check) && !slices.ContainsFunc(of, func(r Finding) bool {
		return IsBad(r.Status) ||
			r.Status == probe.Unknown
	})
}

// those are the results of a check on the node in question that are to be kept.
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

// Good are the good answers of a check.
func Good(f Findings, check string) []Finding {
	return f.those(check, func(r Finding) bool { return r.Status == probe.OK })
}

// Because is for keeping the findings with one of these reasons.
func Because(reasons ...string) func(Finding) bool {
	return func(r Finding) bool { return slices.Contains(reasons, ReasonOf(r)) }
}

// About is for keeping the findings about exactly these targets.
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
