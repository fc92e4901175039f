// Package api answers the checks of the cluster's DNS that the API alone can answer, out of a cluster.Snapshot. The
// client alone links it. It reads nothing: what is not in the Snapshot, internal/cluster has to read.
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
			ID: facts.CheckDNSPolicies, Asks: "do policies keep pods from the cluster's DNS?",
			Run: apicheck.Run(s, dnsPolicies),
			Doc: `A policy for what pods send (egress) denies all that it does not allow, and DNS has to be allowed like the rest, by UDP: a port that is named without a protocol is TCP's. Pods that may send to others and ask nobody for their names look as if the DNS were down, while it answers everybody else (projectcalico/calico#2199).
For each pod of the node that runs and asks the cluster's DNS (its dnsPolicy is ClusterFirst), the policies are evaluated in Calico's order, for UDP to each DNS server: what the pod may send, then what the server may receive. Network sets, labels of namespaces, named ports, notNets, notPorts, protocols and tiers are worked out; labels of service accounts are not. A rule that may let it out, because of something that is not known, counts as one that does.
fail: policies select the pods of the DNS itself and let no question in to any of them, or none of this node's pods; or a rule of a policy denies pods the DNS while they are let out of the cluster; or a rule for the DNS port reaches no server by UDP. warn: the first, for UDP alone, and a cache on the node may ask by TCP; or a policy denies pods all egress, or allows them some and none to the DNS. It may be meant, so it is no fault of the node. ok: there is no such pod. info: the DNS lets in certain pods alone; what policies come to is not known. skip: no pod of the cluster's DNS is known.`,
		},
		{
			ID: facts.CheckDNSService, Asks: "is a server behind the cluster's DNS Service, and may CoreDNS read what it serves?", Run: apicheck.Run(s, dnsService),
			Doc: `The Service of kube-system with the label k8s-app=kube-dns is what pods ask for names. Where it has no ready endpoint, this says why: its selector is one that no pod has (and what the pods most like it have), its targetPort names no port of theirs, its Deployment asks for no replica or can make no pod, its pods are not ready and for what, or nobody makes EndpointSlices.
zones: what the plugin kubernetes of CoreDNS answers for, by the Corefile in the ConfigMap that its pods mount.
account: CoreDNS lists and watches services, namespaces and endpointslices, and is not ready while it may not. Its account is asked about as that of kube-proxy is (proxy-rights).
ok: it has a ready endpoint; the account may do all of it. warn: there is none: on a cluster whose pods ask something else that may be wanted; or the account lacks something and CoreDNS is ready. fail: it lacks something, and none is ready. skip: there is no such Service, or no pod of CoreDNS; or you may not ask.`,
		},
	})
}
