package diagnose

import (
	"fmt"

	"github.com/calico-probe/calico-probe/probe"
)

// A Rule knows one kind of fault.
type Rule struct {
	ID    string // kebab-case, for ever: JSON key, doc anchor
	Layer Layer  // the part of the node it lies in
	// Symptom marks a rule that says what does not work, and not why: "X is down". It is never
	// told with more than medium confidence, nor above a cause it follows from.
	Symptom bool
	// RefutedBy are the checks by which a rule takes another node for broken, because this one gets no answer from it:
	// answers that a third node gets to them refute it.
	RefutedBy []string
	// Compares marks a rule that compares two nodes: it is not asked about the other node once more.
	Compares bool
	// Later marks a rule of what breaks nothing yet and will: it stands below every cause of what
	// is bad now, however sure it is.
	Later bool
	// Open marks a rule that says between what packets are lost, and not by what: the comparison of nodes goes on, and
	// what it finds stands above it.
	Open bool
	// TracedBy is the check that finds where the packets of this cause die, for a rule that says which packets a filter
	// drops, and not which rule of it does: that check runs even where the cause is proven.
	TracedBy string
	// Residual marks a rule that is asked only about what no proven cause explains. It explains
	// symptoms alone, and stands below every other cause that is as sure and above the symptoms.
	Residual bool
	Title    string // the fault in a few words
	// Doc is how the fault works, what it is mistaken for, and how it is told apart.
	Doc string
	// Fix may name {node}; {pod}, {daemonset}, {config} and {namespace} of calico-node;
	// the systemd units {kubelet}, {containerd} and {runtime}, with {together} for the
	// radius; and the Args of a case.
	Fix probe.Fix
	// Fixes are those that some of its cases have in place of Fix, by name.
	Fixes map[string]probe.Fix
	// Advice is what to look at before anything is changed, and what not to do.
	Advice string
	// Runbooks are those for the symptoms that this cause makes, by name.
	Runbooks []string
	// Wants are checks that would settle it. One without an answer lowers the
	// confidence by a step and is named.
	Wants []string
	// RuledOut are checks people suspect in vain: named where they are fine.
	RuledOut []string
	// Explains are rules whose causes follow from this one, by ID.
	Explains []string
	// Apart keeps it named where its evidence follows from another cause as well.
	Apart bool
	// Match finds the cases of it, each with its evidence. It depends on nothing but
	// the findings.
	Match func(Findings) []Case
	// Trace returns the steps of a match that is data, for WhyOf; nil for one in Go.
	Trace func(Findings) []Step
	// Uses are what a match names that is data.
	Uses Uses
	// Source is where a rule is from that is not this program's: the folder of an operator's causes. Its causes are at
	// most of medium confidence.
	Source string
}

// Uses are the names in a match.
type Uses struct {
	Checks, Facts []string
	Args          []string // that its cases give to its fixes
	ArgsTogether  []string // that several names of a fix take at once: a fix need not have each
}

// A Case is one place where a rule may hold.
type Case struct {
	About   string         // a peer, a device; "" where there can be only one
	Peer    string         // the other node it is about, "" where it is not about one alone
	Family  int            // of addresses it is about: 4 or 6, 0 for both
	Says    string         // the cause in one sentence, with its particulars
	Fault   bool           // it breaks traffic now, though no check of the node may fail
	Args    map[string]Arg // for the fix
	Fix     *probe.Fix     // in place of the rule's, nil for that
	FixName string         // the name of one of the rule's Fixes, in place of both
	For     []Clue
	Against []Clue
	Covers  []Cover // bad results that follow from it, besides its evidence
}

// Cover names results a cause explains.
type Cover struct {
	Check string
	About string // whole words of the target, "" for any
}

// Covers are all results of some checks.
func Covers(ids ...string) []Cover {
	var out []Cover
	for _, id := range ids {
		out = append(out, Cover{Check: id})
	}
	return out
}

// A Clue is a finding and how much it weighs: a sum of 3 is proof, 2 fits, 1 is a
// hint.
type Clue struct {
	Finding
	Weight  int
	Context bool // shown beside the evidence, and none itself
}

// The weights clues have.
const (
	Proof  = 3 // nothing else makes this
	Strong = 2
	Hint   = 1
)

// Proves are clues of which the first of each kind is proof; more of the same kind is evidence to show and no more
// certain.
func Proves(of ...[]Finding) []Clue { return Clues(Proof, of...) }

// Suggests are strong clues, as Proves makes proof.
func Suggests(of ...[]Finding) []Clue { return Clues(Strong, of...) }

// Hints are hints, as Proves makes proof.
func Hints(of ...[]Finding) []Clue { return Clues(Hint, of...) }

// Shows are findings to show beside the evidence, which weigh nothing.
func Shows(of ...[]Finding) []Clue { return Clues(0, of...) }

// Clues gives the same weight to the first of some findings.
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
