package diagnose

import (
	"fmt"

	"github.com/calico-probe/calico-probe/probe"
)

// A Rule describes one kind of fault.
type Rule struct {
	ID    string // kebab-case, never changed: JSON key, doc anchor
	Layer Layer  // the part of the node with the fault
	// Symptom marks a rule that reports what does not work, but not why, as in "X is down". Its confidence is medium at
	// most, and it never ranks above the cause that explains it.
	Symptom bool
	// RefutedBy lists the checks on which this rule relies when it blames another node for not answering this node. A
	// third node's good results about the same target refute the case.
	RefutedBy []string
	// Compares marks a rule that already compares two nodes: it is not applied to the other node again.
	Compares bool
	// Later marks a rule about a future fault. Whatever its confidence, it ranks below every cause of a current fault.
	Later bool
	// Open marks a rule that names the two ends between which packets are lost, but not what drops them. The comparison of
	// nodes continues, and its result ranks above this rule's cause.
	Open bool
	// TracedBy is the check that finds where packets are dropped. It is set if the cause names the dropped packets but not
	// the filter rule. The check runs even if the cause is proven.
	TracedBy string
	// Residual marks a rule that applies only to results that no proven cause explains. It explains only symptoms. It
	// ranks above symptoms with equal confidence, but below all other causes with equal confidence.
	Residual bool
	Title    string // the fault in a few words
	// Doc explains how the fault works, for what it is often mistaken, and how to distinguish it.
	Doc string
	// Fix may name {node}, a case's Args, and calico-node's {pod}, {daemonset}, {config} and {namespace}. The systemd
	// units are {kubelet}, {containerd} and {runtime}. {together} is for the radius.
	Fix probe.Fix
	// Fixes are alternatives to Fix, by name. Some of the rule's cases use them.
	Fixes map[string]probe.Fix
	// Advice lists what to check before a change, and what not to do.
	Advice string
	// Runbooks are the names of runbooks for this cause's symptoms.
	Runbooks []string
	// Wants lists checks that would settle the case. If a result is missing, the cause names the check, and its confidence
	// is one step lower.
	Wants []string
	// RuledOut lists checks of things that people wrongly suspect. Good results are reported as ruled out.
	RuledOut []string
	// Explains lists, by ID, rules whose causes follow from this rule's causes.
	Explains []string
	// If Apart is set, the report keeps this cause even if its evidence follows from another cause.
	Apart bool
	// Match finds the cases of this rule, each with its evidence. It is a pure function of the findings.
	Match func(Findings) []Case
	// Trace returns the steps of a match in data, for WhyOf. It is nil for a match in Go.
	Trace func(Findings) []Step
	// Uses are the names that a match in data uses.
	Uses Uses
	// Source is the folder with an operator's rule. It is "" for this program's own rules. An operator's causes have
	// medium confidence at most.
	Source string
}

// Uses are the names that a match uses.
type Uses struct {
	Checks, Facts []string
	Args          []string // names that the cases pass to the fixes
	ArgsTogether  []string // values for several names in a fix at once; a fix need not use all of them
}

// A Case is one instance of a rule.
type Case struct {
	About   string         // a peer or a device; "" if only one can exist
	Peer    string         // the other node; "" if there is not exactly one
	Family  int            // its address family: 4 or 6, 0 for both
	Says    string         // the cause in one sentence, with this run's names
	Fault   bool           // the fault breaks traffic now, even if no check of the node fails
	Args    map[string]Arg // for the fix
	Fix     *probe.Fix     // replaces the rule's fix; nil = keep it
	FixName string         // the name of one of the rule's Fixes, which replaces both fixes
	For     []Clue
	Against []Clue
	Covers  []Cover // bad results that follow from the case, beyond its evidence
}

// Cover names results that a cause explains.
type Cover struct {
	Check string
	About string // whole words of the target; "" = any target
}

// Covers returns covers for all results of these checks.
func Covers(ids ...string) []Cover {
	var out []Cover
	for _, id := range ids {
		out = append(out, Cover{Check: id})
	}
	return out
}

// A Clue is a finding with a weight. Weights add up: a sum of 3 is proof, 2 is medium evidence, 1 is a hint.
type Clue struct {
	Finding
	Weight  int
	Context bool // shown next to the evidence, without weight
}

// The weights of clues.
const (
	Proof  = 3 // nothing else causes this result
	Strong = 2
	Hint   = 1
)

// Proves returns clues. The first finding in each list is proof. Further findings of the same kind are shown, but do
// not add certainty.
func Proves(of ...[]Finding) []Clue { return Clues(Proof, of...) }

// Suggests returns clues like Proves, with weight Strong.
func Suggests(of ...[]Finding) []Clue { return Clues(Strong, of...) }

// Hints returns clues like Proves, with weight Hint.
func Hints(of ...[]Finding) []Clue { return Clues(Hint, of...) }

// Shows returns clues without weight, which are shown next to the evidence.
func Shows(of ...[]Finding) []Clue { return Clues(0, of...) }

// Clues returns clues. The first finding in each list has the given weight.
func Clues(weight int, of ...[]Finding) []Clue {
	var out []Clue
	for _, fs := range of {
		for i, r := range fs {
			w := weight
			if i > 0 {
				w = 0
			}
			out = append(out, Clue{Finding: r, Weight: w, Context: weight == 0})
		}
	}
	return out
}

// FixOf returns the fix of a case.
func (r *Rule) FixOf(c Case) probe.Fix {
	named, has := r.Fixes[c.FixName]
	switch {
	case has:
		return named
	case c.FixName != "":
		panic(fmt.Sprintf("%s has no fix %q", r.ID, c.FixName))
	case c.Fix != nil:
		return *c.Fix
	}
	return r.Fix
}
