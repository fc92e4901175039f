package cause

import (
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// ipamLockHeld is the lock of projectcalico/cni-plugin#985, held by somebody else.
func ipamLockHeld(f diagnose.Findings) []diagnose.Case {
	held := diagnose.Keep(f.Bad(cni.IPAMFiles.ID),
		func(r diagnose.Finding) bool { return r.Target == cni.TargetPluginLock })
	if len(held) == 0 {
		return nil
	}
	weight := diagnose.Strong
	if held[0].Status == probe.Fail { // by none of the plugin's calls
		weight = diagnose.Proof
	}
	return []diagnose.Case{{
		Says:   "no new pod of {node} gets an address: " + held[0].Saw,
		For:    append(diagnose.Clues(weight, held[:1]), diagnose.Shows(f.Bad(facts.CheckPodsStart))...),
		Args:   map[string]diagnose.Arg{"holder": diagnose.ProcessArg(diagnose.Num(held, cni.FactHolder))},
		Covers: diagnose.Covers(cni.IPAMFiles.ID, facts.CheckPodsStart),
	}}
}
