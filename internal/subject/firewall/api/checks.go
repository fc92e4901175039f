// Package api answers the checks of what policies forbid that the API alone can answer, out of a cluster.Snapshot.
// The client alone links it. It reads nothing: what is not in the Snapshot, internal/cluster has to read.
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
			ID: facts.CheckPodPolicies, Asks: "which policies hold for pods of the node?", Run: apicheck.Run(s, podPolicies),
			Doc: `A pod that a policy of Kubernetes' or Calico's selects receives or sends only what some policy allows. Where the node has other pods, those are tested from inside, since what a policy denies may be meant. So what a policy breaks for the pods that it selects is not seen by the other checks: this one names the policy and the pods.
ok: no policy selects a pod of the node. info: which policy holds for which pods, and whether it surely denies everything in a direction; or the policies could not be read.`,
		},
		{
			ID: facts.CheckAPIPolicies, Asks: "do policies keep the cluster's own pods from the API server?",
			Run: apicheck.Run(s, apiPolicies),
			Doc: `A policy for all pods of kube-system or of Calico's namespace also holds for CoreDNS, calico-kube-controllers, calico-apiserver and metrics-server. Each of them needs the API server: CoreDNS is never ready without it, addresses of pods that are gone are not freed. Nothing is seen as long as they run with the connections and answers that they have.
For each of them (the first two on every node) the policies are evaluated in Calico's order for TCP to the API server's endpoints, as for dns-policies.
ok: none is denied it. fail: a policy surely denies it, and which. info: what policies come to is not known. skip: no endpoint of the API server is known.`,
		},
		{
			ID: facts.CheckHostEndpoints, Asks: "does a HostEndpoint shut ports that Kubernetes needs?", Run: apicheck.Run(s, hostEndpoints),
			Doc: `A HostEndpoint makes Calico's policies hold for an interface of a node itself. From then on all that no policy allows there is dropped, but for Felix's failsafe ports (ssh, BGP, etcd, Typha, the API server's 6443; not the kubelet's 10250): one that was made without a policy, or before it, cuts the node off at once.
For each HostEndpoint of the node the policies that select it are gone through in Calico's order, for TCP 10250, 6443, 179 and 22 towards the node, and for TCP 443 from the node itself: a policy of Ingress alone lets nothing out.
ok: there is none, or none of these ports is surely shut: a rule with conditions may let it in. warn: one or more is neither failsafe nor let in by any policy, or nothing is let out. info: there is one, and what policies come to is not known. unknown: the same, because a list failed. skip: you may not list HostEndpoints.`,
		},
	})
}
