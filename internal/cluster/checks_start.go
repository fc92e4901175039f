package cluster

import (
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// startChecks are those of what keeps a node or calico-node from starting, and of settings that nodes have to share.
func startChecks(bind binder) []*probe.Check {
	return []*probe.Check{
		{
			ID: facts.CheckWebhooks, Asks: "does a webhook that nobody answers for keep the node or Calico from writing?",
			Run: bind(deadWebhooks),
			Doc: `A webhook with failurePolicy Fail refuses whatever it is not asked about: where its Service is gone or has no ready endpoint, all that its rules match cannot be written. One that matches leases, nodes or their status makes every node NotReady, though its kubelet is well and reaches the API server; one that matches pods keeps calico-node's from being made; one that matches Calico's resources stops IPAM.
Asked about are leases in kube-node-lease, nodes and their status, pods in the namespaces of calico-node, pods in namespace default, IPAM's blocks and ClusterInformation. Of a namespace only the label with its name is known, of a pod the label of calico-node: a selector of other labels is taken not to match.
ok: none does. fail: one blocks new pods of ordinary namespaces; or one does, and the node's lease has run out, or the node has no calico-node. warn: one does. info: one may, it has matchConditions, which are not looked at. unknown: it could not be read whether somebody answers for one. skip: you may not list webhooks.
Webhooks by URL, and those that somebody answers for, are not looked at.`,
		},
		{
			ID: facts.CheckTyphaService, Asks: "is there a Typha where calico-node is configured to look for it?",
			Run: bind(typhaService),
			Doc: `calico-node finds Typha by the Service that FELIX_TYPHAK8SSERVICENAME and FELIX_TYPHAK8SNAMESPACE name (by default in kube-system), and in it by the port named calico-typha. Without one Felix ends at once ("Typha discovery enabled but discovery failed"), confd writes no configuration for BIRD, and calico-node never becomes ready.
ok: it has a ready endpoint. fail: there is no such Service, it has no ready endpoint, or no port of that name. skip: calico-node is not configured to look for one.
What usually breaks it: a manifest for Typha that was applied in part, the variable copied from another cluster, Typha scaled to none, its Deployment without room.`,
		},
		{
			ID: facts.CheckTunnelSettings, Asks: "has this node the same settings of tunnels as the others?", Run: bind(sameTunnels),
			Doc: `Each Felix takes its settings from the FelixConfiguration default, from one whose nodeSelector takes the node, and from node.NAME. Both ends of a tunnel have to have the same port and VNI: a node with another sends to a port where nobody listens and hears nothing, while everything on it calls itself healthy.
Compared are vxlanPort, vxlanVNI and vxlanEnabled where a pool has VXLAN, ipipEnabled where one has IPIP, and whether WireGuard is used.
ok: they are the same. fail: port or VNI differ, and this node is the odd one. warn: they differ and another node is that, or another setting differs: with WireGuard that may be meant so, while it is introduced.`,
		},
	}
}
