// Package api answers the checks of Services and of kube-proxy that the API alone can answer, out of a
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
			ID: facts.CheckServiceClaims, Asks: "does a Service take an address and port that the node itself needs?", Run: apicheck.Run(s, serviceClaims),
			Doc: `A Service whose externalIPs, or whose load balancer's address, is an address of a node gets every connection to that address and its port, before anything that listens on the node. That is how a node's address is used on purpose, with ports such as 80; with a port that the node itself needs it is a fault.
Asked about are TCP 10250 (or the kubelet's own port), 179 or Calico's listenPort with BGP, 22, 9099, 10256, UDP 4789 or Felix's vxlanPort where a pool is VXLAN, and where they are on this node the ports of the API server, Typha and etcd.
ok: no Service has one of them. fail: one has. warn: one has a port that people or the node alone ask: 22, 9099, 10256; or one of a tenant has it by externalIPs, which its owner chose: checks on the node show whether it is followed. unknown: the services could not be listed.`,
		},
		{
			ID: facts.CheckServiceEndpoints, Asks: "does a Service lead to addresses that no pod has?", Run: apicheck.Run(s, serviceEndpoints),
			Doc: `Kubernetes makes the EndpointSlices of a Service with a selector, and takes out pods that go. One that something else made for the same Service (a tool for mirrors or migrations, a restored backup, a hand) is kept by nobody: kube-proxy sends it its share of all connections, also when nobody is there any more. Asked are up to four such EndpointSlices, with four ready endpoints of each: has a pod that address?
ok: there is no such endpoint. info: there is, and where: a machine outside the cluster may answer there, on purpose; service-clusterip says whether the Service does. unknown: they could not be listed.`,
		},
		{
			ID: facts.CheckServicePolicies, Asks: "for which Services does it matter how kube-proxy knows the node and whom it masquerades?",
			Run: apicheck.Run(s, servicePolicies),
			Doc: `A Service whose internalTrafficPolicy or externalTrafficPolicy is Local is answered by endpoints of the node that is asked alone: kube-proxy has to know the node by its name in Kubernetes. Pods which a policy lets be reached by certain pods alone, by their labels, have to see those pods' addresses: kube-proxy must not masquerade them. Nothing of that is a fault; kubeproxy-health says how kube-proxy is set.
ok: there is neither. info: there are some, and which. Where a policy cannot be worked out, what it selects is left out.`,
		},
		{
			ID: facts.CheckProxyRights, Asks: "may kube-proxy do what it needs?", Run: apicheck.Run(s, proxyRights),
			Doc: `kube-proxy lists and watches Services and EndpointSlices. Where its ClusterRole system:node-proxier or the binding lacks one of these, rules stay as they are and newer Services do not answer, and kube-proxy calls itself healthy.
The API server is asked what the account of the DaemonSet's pod on this node may do, and where there is none, the user system:kube-proxy; who may not create subjectaccessreviews is answered from the roles and bindings.
ok: all that was asked about. fail: the account lacks something. warn: it does by the roles alone, beside which another authorizer may grant it; or the user system:kube-proxy does, and whether a kube-proxy is that user is not known. skip: you may read neither; or the node's version is before v1.22, whose kube-proxy may read endpoints instead.`,
		},
	})
}
