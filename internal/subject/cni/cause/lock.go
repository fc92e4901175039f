package cause

import (
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// ipamLockHeld is the lock of projectcalico/cni-plugin#985, held by somebody else.
var ipamLockHeld = &diagnose.Rule{
	ID: "ipam-lock-held", Layer: diagnose.LayerCalico, Title: "a process holds Calico's IPAM lock, so new pods get no address",
	Doc: `calico-ipam lets one call after the other ask for an address, by a lock on /var/run/calico/ipam.lock (flock) that it waits for without an end. While another process keeps that lock, a backup, a script or a call of the plugin that hangs, every new pod of the node stays in ContainerCreating, and neither the kubelet nor the plugin says a word before the runtime gives up after minutes. Pods that run are well; pods that end keep their addresses.
Told from a plugin that fails by the lock itself, which the kernel shows with its holder.`,
	Fix: probe.Fix{
		Says: "Look at who holds the lock, and end that.",
		Manifest: []string{"ssh {node} sudo fuser -v /var/run/calico/ipam.lock",
			"ssh {node} ps -o user,pid,ppid,stat,etime,args -p {holder}"},
		OnlyIf: []probe.Conditional{{If: "it hangs, or is not needed", Manifest: []string{"ssh {node} sudo kill {holder}"}}},
		Radius: "the process that holds the lock; pods that wait get their addresses by themselves",
	},
	RuledOut: []string{runtime.CRIHealth.ID, runtime.ContainerdHealth.ID},
	Explains: []string{"cni-plugin-fails", "sandbox-fails"},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}
