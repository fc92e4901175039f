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
var queueHung = &diagnose.Rule{
	ID: "nic-queue-hung", Layer: diagnose.LayerKernel, Title: "a NIC's transmit queue hangs, and its driver resets it",
	Doc: `The kernel gives a packet to the card's driver and waits for the card to send it. After five seconds it says "NETDEV WATCHDOG: eth0: transmit queue 0 timed out", and the driver resets the card: packets are lost for seconds, again and again, and BGP sessions and the kubelet's connections break. It is the card, its firmware or driver, offloads, or a hypervisor that does not get to it.
Told from a lossy network by the kernel's own word.`,
	Fix: probe.Fix{
		Says: "Update the driver and firmware of the card. Until then switch off its offloads for a trial, and move the pods away if it hangs again.",
		Manifest: []string{"ssh {node} 'sudo dmesg -T | grep -i -A3 \"NETDEV WATCHDOG\" | tail -20; ip -s link'",
			"ssh {node} 'for d in /sys/class/net/*/device; do n=$(basename $(dirname $d)); ethtool -i $n | head -3; done'"},
		Radius: evidence.OnlyReads,
	},
	Explains: []string{"node-cut-off", "peer-down", "api-cut-off"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range evidence.KernelSays(f, logs.KernelQueue) {
			device := r.Facts.Str(probe.FactKernelOf)
			lost := f.Bad(link.NodePing.ID)
			out = append(out, diagnose.Case{About: device, For: append(diagnose.Suggests([]diagnose.Finding{r}),
				diagnose.Hints(lost)...),
				Says: fmt.Sprintf("the network card %s of {node} hangs: %s", device, r.Saw)})
		}
		return out
	},
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
var calicoKilled = &diagnose.Rule{
	ID: "calico-process-killed", Layer: diagnose.LayerMachine, Title: "the kernel OOM-killed a process of calico-node",
	Doc: `The kernel kills a process where a cgroup has reached its limit, or the machine has no memory left. It takes the largest, and Kubernetes hears of it only where that is the first process of a container: a Felix, BIRD or confd that is killed inside calico-node is started again by runit, and nothing says so but the kernel.
Told from a program that crashed by the kernel's line; from calico-out-of-memory by its container, which goes on.`,
	Fix: killedFix, Explains: []string{"felix-down", "calico-ends", "bird-dead"},
	Match: func(f diagnose.Findings) []diagnose.Case { return killed(f, true) },
}

// componentKilled is another component that the kernel killed.
var componentKilled = &diagnose.Rule{
	ID: "component-oom-killed", Layer: diagnose.LayerMachine, Title: "the kernel OOM-killed a component of the node",
	Doc: `Where the machine has no memory left, the kernel kills the largest process that is not protected. A kubelet, container runtime or kube-proxy that is killed is started again, by systemd or the kubelet, and what it did is late or lost; nothing says why but the kernel.
Told from a program that crashed by the kernel's line.`,
	Fix: killedFix, Explains: []string{"kubelet-dead", "containerd-dead", "kube-proxy-dead"},
	Match: func(f diagnose.Findings) []diagnose.Case { return killed(f, false) },
}

// kernelStuck is a machine whose CPUs or disks do not get on.
var kernelStuck = &diagnose.Rule{
	ID: "kernel-stuck", Layer: diagnose.LayerMachine, Title: "the kernel logged a stuck CPU or a task blocked for minutes",
	Doc: `"soft lockup" and an RCU stall say that a CPU did nothing else for more than 20 s: a fault of a driver or of the kernel, or a hypervisor that did not run the machine (overcommitted, suspended, migrated). "blocked for more than 120 seconds" says that a process waits inside the kernel, mostly for a disk or a network file system. Meanwhile probes time out, leases and BGP sessions expire, and nothing in Kubernetes says why.
Told from an overloaded node by the kernel's word.`,
	Fix: probe.Fix{
		Says: "Restore what the machine waits for: a slow disk, or a hypervisor that takes its CPU time (steal, snapshots, migrations). If it stalls again, update the kernel and reboot.",
		Manifest: []string{"ssh {node} 'sudo dmesg -T | grep -iE -A8 \"soft lockup|stall|blocked for more\" | tail -40'",
			"ssh {node} 'vmstat 1 3; cat /proc/pressure/io'"},
		Radius: evidence.OnlyReads,
	},
	Explains: []string{"kubelet-frozen", "containerd-hangs", "felix-stuck", "start-outlasts-budget"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		stuck, blocked := evidence.KernelSays(f, logs.KernelStuck), evidence.KernelSays(f, logs.KernelBlocked)
		lines := slices.Concat(stuck, blocked)
		if len(lines) == 0 {
			return nil
		}
		// Of what is blocked only the name is known, and anybody may call a process kubelet.
		return []diagnose.Case{{Says: "the machine of {node} stood still: " + lines[0].Saw,
			For: slices.Concat(diagnose.Suggests(stuck), diagnose.Hints(blocked),
				diagnose.Hints(f.Failed(facts.CheckNodeLease)))}}
	},
}
