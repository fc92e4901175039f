package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// controllersEnd is a calico-kube-controllers that does not get up, or is not there.
func controllersEnd(f diagnose.Findings) []diagnose.Case {
	ends := evidence.KubeEnds(f, "calico-kube-controllers")
	none := diagnose.Keep(f.Bad(facts.CheckControllers), diagnose.Because(facts.ControllersNone))
	gone := diagnose.Keep(f.With(facts.CheckAccounts, facts.AccountOf, facts.AccountControllers),
		diagnose.Because(facts.AccountGone))
	loops := diagnose.Keep(f.Bad(facts.CheckControllers), func(r diagnose.Finding) bool {
		return r.Facts.Str(facts.APIReason) == "CrashLoopBackOff"
	})
	c := diagnose.Case{For: diagnose.Shows(loops, gone), Covers: diagnose.Covers(facts.CheckControllers,
		logs.KubeLog.ID, facts.CheckAccounts),
		Says: "nobody frees the addresses of pods and nodes that are gone: "}
	switch {
	case len(gone) > 0:
		c.Says += fmt.Sprintf("the ServiceAccount %s of calico-kube-controllers is gone", gone[0].Facts.Str(facts.Account))
		c.For = append(diagnose.Proves(gone), diagnose.Shows(loops, none)...)
	case len(ends) > 0:
		c.Says += "calico-kube-controllers ends: " + evidence.QuotedLine(ends[0])
		weight := diagnose.Proof
		if ends[0].Facts.Str(logs.FactSignature) == logs.SaysNoAPI { // as what has no network does
			weight = diagnose.Hint
		}
		c.For = append(diagnose.Clues(weight, ends), c.For...)
	case len(none) > 0:
		c.Says += none[0].Saw
		c.For = append(diagnose.Suggests(none), c.For...)
	case len(loops) > 0 && len(diagnose.Good(f, facts.CheckCalicoPod)) > 0:
		c.Says += "calico-kube-controllers " + loops[0].Saw
		c.For = diagnose.Hints(loops)
	default:
		return nil
	}
	return []diagnose.Case{c}
}
