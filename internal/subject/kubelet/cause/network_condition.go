package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// networkCondition is another than Calico that calls the node's network unavailable.
func networkCondition(f diagnose.Findings) []diagnose.Case {
	set := slices.DeleteFunc(diagnose.Keep(f.Bad(facts.CheckNodeReady), diagnose.About(evidence.NetworkUnavailable)),
		func(r diagnose.Finding) bool {
			reason := r.Facts.Str(facts.APIReason)
			return reason == "" || strings.HasPrefix(reason, "Calico")
		})
	// A node on which Calico has not been up yet has the condition of who registered it.
	if len(set) == 0 || len(f.Bad(facts.CheckCalicoPod)) > 0 {
		return nil
	}
	weight := diagnose.Strong
	if len(diagnose.Good(f, facts.CheckCalicoPod)) > 0 {
		weight = diagnose.Proof
	}
	writer := "another program than Calico"
	if name := set[0].Facts.Str(facts.Writer); name != "" {
		writer += fmt.Sprintf(" (%s)", name)
	}
	c := diagnose.Case{
		Says:   fmt.Sprintf("%s calls the network of {node} unavailable, so no new pod is scheduled there: %s", writer, set[0].Saw),
		For:    diagnose.Clues(weight, set),
		Covers: []diagnose.Cover{{Check: facts.CheckNodeReady, About: evidence.NetworkUnavailable}},
	}
	if taintedByCondition(f) {
		c.Covers = append(c.Covers, diagnose.Covers(facts.CheckNodeTaints)...)
	}
	return []diagnose.Case{c}
}

// taintedByCondition tells whether the only taint of the control plane is that of the condition.
func taintedByCondition(f diagnose.Findings) bool {
	const of, prefix = "node.kubernetes.io/network-unavailable", "node.kubernetes.io/"
	for _, r := range f.Bad(facts.CheckNodeTaints) {
		for _, taint := range diagnose.ListOf(r, facts.Taints) {
			if strings.HasPrefix(taint, prefix) && !strings.HasPrefix(taint, of) &&
				!strings.HasPrefix(taint, prefix+"unschedulable") {
				return false
			}
		}
	}
	return true
}
