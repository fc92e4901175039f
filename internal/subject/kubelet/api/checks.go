// Package api answers the checks of the node and its kubelet that the API alone can answer, out of a
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
			ID: facts.CheckNodeReady, Asks: "what does the API say about the node's state?", Run: apicheck.Run(s, NodeReady),
			Doc: `The kubelet reports the node's conditions; when it stops, the node controller sets Ready to Unknown after about 50 s.
ok: Ready is True and no other condition is out of order.
fail: Ready is False (the kubelet itself says so, and why) or Unknown (the kubelet stopped reporting: it is dead, frozen or cut off); or a pressure condition or NetworkUnavailable is set. warn: the kubelet has started three times or more in the last ten minutes, by its own events.
What usually breaks it: a container runtime that does not answer, swap that came back after a reboot, a dead network, CNI not ready.`,
		},
		{
			ID: facts.CheckNodeLease, Asks: "when did the kubelet last renew its lease?", Run: apicheck.Run(s, NodeLease),
			Doc: `A living kubelet renews the node's Lease every 10 s. The lease goes stale long before the Ready condition changes, so this is the earliest sign of a dead kubelet that the API has.
ok: renewed within 20 s. warn: 20 to 40 s. fail: more than 40 s, the lease has run out; or there is none. Where a node that is Ready reports the same machine (its IDs and its address), that is named. info: there is none yet, on a node that registered less than 40 s ago.
Ages are taken by the API server's clock, not by the clock of the machine that asks.`,
		},
		{
			ID: facts.CheckNodeTaints, Asks: "which taints keep pods off the node?", Run: apicheck.Run(s, nodeTaints),
			Doc: `Taints say what the control plane and people think of the node. Those of node.kubernetes.io/* with effect NoExecute evict pods.
ok: none. info: taints that somebody set, or the node is cordoned. warn: taints the control plane set because something is wrong (not-ready, unreachable, memory-pressure, ...); or one with which nodes are born, such as node.cloudprovider.kubernetes.io/uninitialized, that its controller has not taken away within two minutes. fail: one of an agent (node.cilium.io/agent-not-ready, ebs.csi.aws.com/agent-not-ready) that has no pod on the node, on a node of 30 seconds or more. Pods that wait for a node and do not tolerate it are named.`,
		},
	})
}
