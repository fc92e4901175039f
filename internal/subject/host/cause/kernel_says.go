package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// wasFull is the case of a table that the kernel called full lately, where it is not full now.
func wasFull(f diagnose.Findings, signature, what string) []diagnose.Case {
	lines := evidence.KernelSays(f, signature)
	if len(lines) == 0 {
		return nil
	}
	return []diagnose.Case{{Says: fmt.Sprintf("packets were dropped on {node} for %s was full: %s", what, lines[0].Saw),
		Args: map[string]diagnose.Arg{"max": diagnose.NumberArg(max(262144,
			4*diagnose.Num(f.Of(firewall.NodeConntrack.ID), probe.FactMax)))},
		For: diagnose.Suggests(lines)}}
}

// queueHung is a network card, or its driver, that sends no more.
func queueHung(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range evidence.KernelSays(f, logs.KernelQueue) {
		device := r.Facts.Str(probe.FactKernelOf)
		lost := f.Bad(link.NodePing.ID)
		out = append(out, diagnose.Case{About: device, For: append(diagnose.Suggests([]diagnose.Finding{r}),
			diagnose.Hints(lost)...),
			Says: fmt.Sprintf("the network card %s of {node} hangs: %s", device, r.Saw)})
	}
	return out
}

// killedFix is where to look after the kernel has killed something.
var killedFix = probe.Fix{
	Says: "Find what uses the memory; give calico-node a larger limit or none where its own limit was reached; reserve memory for the system (systemReserved).",
	Manifest: []string{"ssh {node} 'sudo dmesg -T | grep -i -B2 \"killed process\" | tail -20; free -m'",
		"kubectl -n {namespace} get ds {daemonset} -o jsonpath='{.spec.template.spec.containers[*].resources}'",
		"kubectl describe node {node} | grep -A12 Allocated"},
	Radius: evidence.OnlyReads,
}

// ofCalico are the processes inside calico-node's container.
var ofCalico = []string{"calico-node", "bird", "bird6", "confd"}

// killed is the case of processes that the kernel killed, those of Calico's or the others.
func killed(f diagnose.Findings, calicos bool) []diagnose.Case {
	lines := diagnose.Keep(evidence.KernelSays(f, logs.KernelKilled), func(r diagnose.Finding) bool {
		return slices.Contains(ofCalico, r.Facts.Str(probe.FactKernelOf)) == calicos
	})
	if since, known := notReadyFor(f); known && calicos {
		lines = diagnose.Keep(lines, func(r diagnose.Finding) bool {
			ago, _ := r.Facts.Num(host.FactAgo)
			return ago <= since+killShows
		})
	}
	if len(lines) == 0 {
		return nil
	}
	var names []string
	for _, r := range lines {
		names = append(names, r.Facts.Str(probe.FactKernelOf))
	}
	return []diagnose.Case{{Says: fmt.Sprintf("the kernel killed %s on {node} for want of memory: %s", strings.Join(names, ", "), lines[0].Saw),
		For: append(diagnose.Suggests(lines), diagnose.Hints(f.Failed(host.NodeMemory.ID))...)}}
}

// killShows is how long after the end of one of its processes calico-node is called not ready, in seconds: three
// readiness probes 10 s apart fail, each within 10 s (Calico's manifest).
const killShows = 60

// notReadyFor is for how many seconds calico-node has not been ready, false where it is ready or that is not known.
func notReadyFor(f diagnose.Findings) (float64, bool) {
	for _, r := range f.Bad(facts.CheckCalicoPod) {
		if n, known := r.Facts.Num(facts.NotReady); known {
			return n, true
		}
	}
	return 0, false
}

// calicoKilled is a process of calico-node's that the kernel killed.
func calicoKilled(f diagnose.Findings) []diagnose.Case { return killed(f, true) }

// componentKilled is another component that the kernel killed.
func componentKilled(f diagnose.Findings) []diagnose.Case { return killed(f, false) }

// kernelStuck is a machine whose CPUs or disks do not get on.
func kernelStuck(f diagnose.Findings) []diagnose.Case {
	stuck, blocked := evidence.KernelSays(f, logs.KernelStuck), evidence.KernelSays(f, logs.KernelBlocked)
	lines := slices.Concat(stuck, blocked)
	if len(lines) == 0 {
		return nil
	}
	// Of what is blocked only the name is known, and anybody may call a process kubelet.
	return []diagnose.Case{{Says: "the machine of {node} stood still: " + lines[0].Saw,
		For: slices.Concat(diagnose.Suggests(stuck), diagnose.Hints(blocked),
			diagnose.Hints(f.Failed(facts.CheckNodeLease)))}}
}
