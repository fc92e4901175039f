package causefile

import (
	"maps"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
)

// A Match returns a rule's cases for the findings. It is written in Go if data cannot express the rule.
type Match = func(diagnose.Findings) []diagnose.Case

// Functions that files refer to by name. They return findings, weighted findings, or covered results.
type (
	SelectionFunc = func(f diagnose.Findings, args ...string) []diagnose.Finding
	WeightFunc    = func(f diagnose.Findings, of []diagnose.Finding) []diagnose.Clue
	CoverFunc     = func(f diagnose.Findings, args ...string) []diagnose.Cover
)

// Args supplies several related values for a fix.
type Args struct {
	Names []string
	Of    func(f diagnose.Findings, args ...string) map[string]diagnose.Arg
}

// Shared is everything that files may refer to by name.
type Shared struct {
	Selections map[string]SelectionFunc     // "@kubelet-says runtime pleg"
	Least      map[string]int               // the minimum number of arguments of a selection
	Weights    map[string]WeightFunc        // weights that depend on the findings: "said pods"
	Covers     map[string]CoverFunc         // "@calico-down"
	Args       map[string]Args              // "@method-for: 4 10.88.0.11"
	Words      map[string]map[string]string // words that replace values
	Fixes      map[string]probe.Fix         // shared by several causes
	Advice     map[string]string            // shared by several causes
}

// With adds one subject's own names to the common ones.
func (s Shared) With(own Shared) Shared {
	return Shared{
		Selections: joined(s.Selections, own.Selections), Least: joined(s.Least, own.Least),
		Weights: joined(s.Weights, own.Weights),
		Covers:  joined(s.Covers, own.Covers), Args: joined(s.Args, own.Args), Words: joined(s.Words, own.Words),
		Fixes: joined(s.Fixes, own.Fixes), Advice: joined(s.Advice, own.Advice),
	}
}

func joined[V any](a, b map[string]V) map[string]V {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]V{}
	}
	maps.Copy(out, b)
	return out
}
