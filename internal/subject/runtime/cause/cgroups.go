package cause

import (
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// cgroupsExhausted is kubernetes/kubernetes#96701.
var cgroupsExhausted = &diagnose.Rule{
	ID: "cgroups-exhausted", Layer: diagnose.LayerKernel, Title: "the kernel cannot create more cgroups",
	Doc: `Each pod and container has a cgroup, for which the kubelet and the runtime make a folder below /sys/fs/cgroup. The kernel has numbers for 65535 memory cgroups, and answers "no space left on device" or "cannot allocate memory" when there is none left. Kernels before 5.x keep removed cgroups whose memory is still accounted, and with accounting of kernel memory (kmem) some leak for ever: pods that come and go, as of CronJobs, use the numbers up in weeks. Pods that run go on.
Told from a full disk and from short memory by the path, which is a cgroup: neither a disk nor the node's memory is meant.`,
	Fix: probe.Fix{
		Says: "Restart the machine: that alone gives the cgroups back for certain. Then a newer kernel, or cgroup.memory=nokmem for one that leaks.",
		Manifest: []string{
			"ssh {node} 'grep -e subsys -e memory /proc/cgroups; cat /sys/fs/cgroup/cgroup.stat; uname -r'  # num_cgroups near 65535, or many nr_dying_descendants",
		},
		OnlyIf: []probe.Conditional{
			{If: "its pods can be spared, and what they have in emptyDir volumes: before the restart",
				Manifest: []string{"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"}},
			{If: "it is drained", Manifest: []string{"ssh {node} sudo systemctl reboot"}},
			{If: "it is up again", Manifest: []string{"kubectl uncordon {node}"}},
			{If: "no restart is possible now: it gives some back, and slows the node down for a while",
				Manifest: []string{"ssh {node} 'echo 2 | sudo tee /proc/sys/vm/drop_caches'"}},
		},
		Radius: "looking: nothing; the drain moves the pods of this node to others, and what their emptyDirs hold is lost",
	},
	RuledOut: []string{host.NodeDisk.ID, host.NodeMemory.ID}, Explains: withoutSandbox,
	Match: func(f diagnose.Findings) []diagnose.Case {
		pods, _ := evidence.Obstructed(f, facts.ObstacleCgroups)
		if len(pods) == 0 {
			return nil
		}
		return []diagnose.Case{{
			Says: "no pod can start on {node}: the kernel makes no more cgroups: " + pods[0].Facts.Str(facts.Message),
			For:  evidence.Said(pods), Covers: diagnose.Covers(probe.CheckPlaced),
		}}
	},
}

// systemdUnanswering is kubernetes/kubernetes#100328.
var systemdUnanswering = &diagnose.Rule{
	ID: "systemd-unanswering", Layer: diagnose.LayerMachine,
	Title: "systemd, which creates the pods' cgroups, does not respond",
	Doc: `With the cgroup driver systemd, the kubelet and runc ask systemd over D-Bus for the cgroup of each pod and container. Where dbus was restarted or upgraded they may hold a dead connection ("dbus: connection closed by user"); where systemd itself is stuck or busy with thousands of units, its answer does not come ("Timed out while waiting for StartUnit ... completion signal from dbus"). Pods that run go on.
Told from a runtime that hangs by these words.`,
	Fix: probe.Fix{
		Says: "See whether systemd answers. Where it does, the kubelet holds a dead connection: start it anew.",
		Manifest: []string{
			"ssh {node} 'timeout 10 systemctl is-system-running; systemctl is-active dbus; systemctl list-units --all --no-legend | wc -l'",
		},
		OnlyIf: []probe.Conditional{
			{If: "systemctl answers", Manifest: []string{"ssh {node} sudo systemctl restart {kubelet}"}},
			{If: "systemctl does not answer; where this does not help either, restart the machine",
				Manifest: []string{"ssh {node} sudo systemctl daemon-reexec"}},
		},
		Radius: "this node only; containers go on running while the kubelet is away, and while systemd begins anew",
	},
	Explains: withoutSandbox,
	Match: func(f diagnose.Findings) []diagnose.Case {
		pods, _ := evidence.Obstructed(f, facts.ObstacleSystemd)
		if len(pods) == 0 {
			return nil
		}
		return []diagnose.Case{{
			Says: "no pod can start on {node}: systemd or its bus does not answer who makes the pod's cgroup: " + pods[0].Facts.Str(facts.Message),
			For:  evidence.Said(pods), Covers: diagnose.Covers(probe.CheckPlaced),
		}}
	},
}
