// Package api answers the checks of calico-node, its kind and its controllers that the API alone can answer, out of
// a cluster.Snapshot. The client alone links it. It reads nothing: what is not in the Snapshot, internal/cluster has
// to read.
package api

import (
	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Checks lists them, bound to a Snapshot. With a nil Snapshot they can be listed and explained, not run.
func Checks(s *cluster.Snapshot) []*probe.Check {
	return apicheck.Of([]*probe.Check{
		{
			ID: facts.CheckCalicoKind, Asks: "how is Calico installed, and what of that does no check look at?", Run: apicheck.Run(s, calicoKind),
			Doc: `Calico is installed in many ways, and not every check has something to ask in each: docs/kinds.md lists them. This says which one it is, by calico-node's pod and environment, Felix's settings and the API group that has Calico's resources.
ok: which kind it is. info, about a part of it: no check looks at that, so a healthy node says nothing about it. They are eBPF's programs and maps; what is in Calico's own etcd; flannel beside Calico, as in Canal; another plugin's pods, where Calico makes policy alone; another IPAM; WireGuard's peers; nodes with Windows. skip: there is no calico-node here, as on a virtual node or one with Windows.`,
		},
		{
			ID: facts.CheckCalicoPod, Asks: "how is the calico-node pod doing?", Run: apicheck.Run(s, CalicoPod),
			Doc: `Everything Calico does on a node is done by its calico-node pod: routes, policy, BGP. This looks at its init containers, restarts, last termination and readiness as the API has them.
Where there is none, the DaemonSet is read to say why: its nodeSelector, its node affinity, or a taint of the node that it does not tolerate; and a pod that it has made for this node and that the scheduler does not bind, with the scheduler's words.
Of one that is not ready the kubelet's events are read: why nothing of it has begun (a volume, the sandbox), or why its liveness or readiness probe failed last. An event from before the present not-ready period is history: it is shown with its age, as a result of its own, and is no evidence.
ok: running and ready, no restart in the last ten minutes. warn: restarted recently, or starting for less than two minutes. fail: no such pod, an init container or the pod stuck, crash-looping, not ready.
Anybody can give a pod the label of calico-node, so a pod is believed only if a DaemonSet controls it and it is in namespace kube-system or calico-system, or in the one that --calico-namespace names. info: another pod on the node has the label; it is ignored. unknown: two DaemonSets that may be Calico's claim the node, or only one in another namespace does; the line says what to name with --calico-namespace. skip: there is none, and none belongs here: the node is virtual or runs Windows, or a migration from flannel has not come to it yet.
Init containers run in the order upgrade-ipam, install-cni, then flexvol-driver, mount-bpffs or ebpf-bootstrap; Init:0/3 means the first has not finished.
What usually breaks it: the API's service address out of reach from the node, a container runtime that lost track of its containers, a node too loaded to start in time.`,
		},
		{
			ID: facts.CheckCalicoBudget, Asks: "how long may calico-node take to start before it is killed?",
			Run: apicheck.Run(s, calicoBudget),
			Doc: `The kubelet kills a container whose liveness probe fails for its whole budget: initial delay + (failure threshold - 1) x period + one timeout. Felix opens its health port only after start-up has finished, so on a slow or far-away node a start that is longer than the budget never ends: the container is killed and starts again.
ok: no run was cut short. fail: the last run was ended from outside (exit 137 or 143; or 0, when start-up was over and runit had taken charge) at about the age the budget allows, and the present one is not ready, or nothing asks whether it is and it is not yet past that age. warn: it is, and has begun within ten minutes. info: there is no liveness probe, or the last run ended otherwise.`,
		},
		{
			ID: facts.CheckControllers, Asks: "how is calico-kube-controllers doing?", Run: apicheck.Run(s, calicoControllers),
			Doc: `calico-kube-controllers frees the addresses of nodes and pods that are gone. fail: on this node, a liveness or startup probe whose command or flag does not exist has it killed again and again. It is a pod like others: where Calico does not work on its node it has no network, does not reach the API and restarts again and again. That is a consequence and seldom the fault.
ok: running and ready. warn: it waits, ended, is not ready or has restarted within ten minutes, and is on this node. info: the same, on another node. warn too: its Deployment has no pod at all, so nobody frees addresses. skip: the cluster has none where Calico is looked for: in namespace kube-system or calico-system, or in the one that --calico-namespace names.`,
		},
	})
}
