package cause

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// nodeFull is a kubelet that has no room for new pods.
func nodeFull(f diagnose.Findings) []diagnose.Case {
	refused, probes := evidence.WaitingPods(f, facts.StartsRefused), evidence.NotPlaced(f, facts.ReasonRejected)
	full := f.With(facts.CheckPodsStart, facts.Full, true)
	switch {
	case len(refused) > 0:
		weight := diagnose.Strong
		if refused[0].Status == probe.Fail {
			weight = diagnose.Proof
		}
		n, _ := refused[0].Facts.Num(facts.Pods)
		verb := " are"
		if n == 1 {
			verb = " is"
		}
		return []diagnose.Case{{
			Says: fmt.Sprintf("the kubelet of {node} refuses new pods: %s%s refused lately: %s", evidence.CountOf(n, "pod"), verb,
				cmp.Or(refused[0].Facts.Str(facts.Message), refused[0].Facts.Str(facts.APIReason))),
			For: slices.Concat(diagnose.Clues(weight, refused), diagnose.Hints(probes), diagnose.Shows(full)),
		}}
	case len(full) > 0 && len(probes) > 0:
		return []diagnose.Case{{
			Says: "the kubelet of {node} refuses new pods: " + full[0].Saw,
			For:  slices.Concat(diagnose.Suggests(probes), diagnose.Hints(full)),
		}}
	}
	return nil
}
