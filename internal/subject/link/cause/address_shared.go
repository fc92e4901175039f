package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// internalShared is kubernetes/kubernetes#60835.
func internalShared(f diagnose.Findings) []diagnose.Case {
	shared := f.With(facts.CheckIPRegistered, probe.FactReason, facts.ReasonShared)
	if len(shared) == 0 {
		return nil
	}
	address := shared[0].Facts.Str(facts.Internal)
	taken := diagnose.Keep(f.With(facts.CheckIPRegistered, probe.FactReason, facts.ReasonTaken),
		func(r diagnose.Finding) bool { return r.Facts.Str(facts.Registered) == address })
	return []diagnose.Case{{
		Says: fmt.Sprintf("%s is the InternalIP of {node} and of %s: the API server cannot reach both kubelets there", address, shared[0].Facts.Str(probe.FactNode)),
		For: slices.Concat(diagnose.Suggests(shared), diagnose.Hints(taken),
			diagnose.Hints(evidence.NotPlaced(f, facts.ReasonAttach))),
		Covers: []diagnose.Cover{{Check: facts.CheckIPRegistered, About: "InternalIP"}},
	}}
}
