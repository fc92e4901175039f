package diagnose

import (
	"slices"

	"github.com/calico-probe/calico-probe/probe"
)

// A Suite is the input of a diagnosis in addition to the findings: the rules, and the data about the subjects that the
// engine needs.
type Suite struct {
	Rules []*Rule // the order decides between otherwise equal causes
	// Lost returns the results that show that packets to another node are lost.
	Lost func(f Findings, node string) []Finding
	// Paths are the checks that succeed only if packets pass between nodes or their pods.
	Paths []string
	// Whole is a check that has a result on every node that ran the whole suite.
	Whole string
	// Implies maps a check to the effects that other nodes see if all of the check's results on this node are bad.
	Implies map[string]Cover
}

// With returns the suite with an operator's rules after its own.
func (s Suite) With(theirs []*Rule) Suite {
	s.Rules = slices.Concat(s.Rules, theirs)
	return s
}

// Rule returns the rule with an ID, or nil if the ID is unknown.
func (s Suite) Rule(id string) *Rule {
	i := slices.IndexFunc(s.Rules, func(r *Rule) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	return s.Rules[i]
}

// A Side is the location of the fault, for a cause that names another node.
type Side int

// The sides. Only Here means that the node with the cause is at fault, regardless of the other node.
const (
	Between Side = iota // at either end, or between the two
	Here                // on the node with the cause: its kernel misroutes packets for the other node
	There               // on the other node: the node with the cause sees the symptoms
)

// IDs returns the ID of each cause.
func (s Suite) IDs() []string {
	var out []string
	for _, r := range s.Rules {
		out = append(out, r.ID)
	}
	return out
}

// Advice returns the parts of each cause that do not need a run: its ID, advice and runbooks.
func (s Suite) Advice() []probe.Cause {
	var out []probe.Cause
	for _, r := range s.Rules {
		out = append(out, probe.Cause{ID: r.ID, Advice: r.Advice, Runbooks: r.Runbooks})
	}
	return out
}

// SideOf returns the side of a rule's causes, or Between if the rule is unknown.
func (s Suite) SideOf(id string) Side {
	r := s.Rule(id)
	switch {
	case r == nil:
		return Between
	case r.Symptom || len(r.RefutedBy) > 0 || r.Residual && r.Layer == LayerPeers:
		return There
	case r.Layer <= LayerKernel:
		return Here
	}
	return Between
}
