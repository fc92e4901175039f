// Package api answers the checks of the pods that are bound to the node that the API alone can answer, out of a
// cluster.Snapshot. The client alone links it. It reads nothing: what is not in the Snapshot, internal/cluster has
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
			ID: facts.CheckPodsStart, Asks: "do the pods that are bound to the node start?", Run: apicheck.Run(s, PodsStart),
			Doc: `A node whose new pods do not start is not healthy, however well those that run are. This looks at pods that are bound to the node and wait, without calico-node's own (see calico-pod), and puts those together that wait for the same: by the kubelet's state of their containers, and by the last event of the twelve that wait longest, without the names and IDs in it. A pod that has waited for less than 20 s, or for less than a minute where nothing is said, is no finding.
A pod that the kubelet has refused lately is told as well (refused): it ended as Failed with OutOfpods, OutOfcpu or the like, within ten minutes. fail: the node has as many pods as it may have, or two were refused because it has no room, and they are of two namespaces or of the cluster's own. warn: one was, or those of one tenant were. info: it asks for more than the node has; and a node that is full.
ok: none waits. fail: pods of two namespaces, or one of the cluster's own for more than two minutes (one of any namespace at once where the message names what no pod can cause, such as a token, a missing plugin or the pause image, and no pod of another namespace has started since; or where no pool or block has an address for the node), get no address (addresses), fail in the CNI plugin (cni), find no network configuration (network), get no sandbox or container from the runtime (sandbox, container), cannot have several images that are not of one tenant alone (image), or are not begun and nobody says why (unsaid).
warn: the same of one tenant's pods, whose annotations the CNI plugin repeats and whose events the tenant can write; of one pod within two minutes, or while calico-node itself has just come up; a volume that is not mounted (volume); images of one tenant that a registry refuses for a reason that is no image's, such as too many requests. info: the reason is the pods' own (own): no such image, ConfigMap or Secret, a program that ends; one tenant's images of one registry that does not answer; an image on its way (pulling).
Where pods get no address, IPAM is reckoned up: the pools for this node, its blocks and how many it may have, what is free in them and elsewhere, reservations, and addresses that are kept for pods that are gone.`,
		},
		{
			ID: facts.CheckPodsEnd, Asks: "do the pods of the node that shall end do so?", Run: apicheck.Run(s, podsEnd),
			Doc: `A pod that is deleted gets its grace, is killed, loses its network, and goes when its volumes are unmounted. One that is there a minute after its grace is stuck: kubectl shows Terminating, and whatever waits for it (a drain, a StatefulSet, a rolling update) waits on. Pods with finalizers are left out: those wait for somebody else, and may have ended on the node long ago. What keeps them is told by the last event FailedKillPod of the six that are due longest, or by what of them still runs.
ok: none is late. fail: for two minutes or more the CNI plugin does not remove the network (cni), or the runtime does not stop containers (runtime), of pods of two namespaces or of the cluster's own. warn: the same of one tenant's, or earlier; nothing runs any more and the kubelet is not done with volumes or cgroups (clean), which only its log explains; or it says nothing (unsaid).
unknown: the kubelet is silent, so nothing ends and nobody says so; or the events that say why could not be read.`,
		},
	})
}
