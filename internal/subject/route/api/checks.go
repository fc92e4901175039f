// Package api answers the checks of routes between pods that the API alone can answer, out of a cluster.Snapshot.
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
			ID: facts.CheckIPRegistered, Asks: "is the address Calico registered the one its nodes use?",
			Run: apicheck.Run(s, ipRegistered),
			Doc: `Calico registers one address per node and family (annotation projectcalico.org/IPv4Address and IPv6Address); peers open BGP sessions and tunnels to it. When autodetection picks another NIC or a bridge, peers get an address they cannot reach.
ok: registered and InternalIP are the same on all nodes. info: they differ on every node in the same manner, as on clusters with a network of its own for pods. fail: this node's differs and lies outside the peers' network, or two nodes registered the same address, or none is registered here and this node's InternalIP is for another one. warn: another node is odd, or nothing is registered, or another node that is Ready has the same InternalIP, so that the API server takes one kubelet for the other. skip: Calico registers nothing on Nodes here: its networking backend is none (from v3.26.2 on), or its data is in an etcd of its own.
What usually breaks it: a new NIC, a bridge made by docker network create, autodetection method first-found.`,
		},
		{
			ID: facts.CheckRouteMakers, Asks: "who makes the routes to other nodes' pods: Felix or BIRD?", Run: apicheck.Run(s, routeMakers),
			Doc: `Of pools with VXLAN it is Felix. Of the others two settings say it, which have to complement each other: programClusterRoutes of FelixConfiguration (from v3.31) and of BGPConfiguration (from v3.32). Where neither is set, BIRD makes them all before v3.33; from v3.33 on Felix makes those of pools with IPIP and BIRD those without encapsulation.
ok: each pool has one who makes its routes. warn: both make those of a pool and take each other's away, or nobody does. info: who makes them is another one from v3.33 on; where a setting that was made by hand clashes then, it is said that both will, or nobody. skip: no BIRD of Calico's runs here, or all pools have VXLAN.
What usually breaks it: one of the two settings changed alone; one set long ago that the defaults of a new version no longer complement.`,
		},
		{
			ID: facts.CheckIPPools, Asks: "do the IP pools overlap with nodes or services, and do pods keep their addresses outside?",
			Run: apicheck.Run(s, ipPools),
			Doc: `A pool's range has to be nobody else's. Where a block of it has a node's address in it, other nodes send what is meant for that node to the owner of the block. Where cluster IPs are in it, IPAM gives a pod an address that kube-proxy takes for a Service. Where nodes are in it, pods that ask machines of that network do so by their own address, for Calico masquerades only what leaves its pools, and the machines send their answers elsewhere.
With natOutgoing false pods keep their address also outside of the cluster: there has to be a router that knows where they are, by BGP or by routes of its own. Calico's own BGP peers that are no nodes are counted as such.
ok: no overlap. fail: a block that a node has of the pool has a node's address or a cluster IP in it. warn: an API server that is no node has its address in the pool, be it disabled: what pods send there is not masqueraded; disableBGPExport is set in a pool whose routes BIRD makes; natOutgoing is false in a pool that is always in a tunnel (VXLAN or IPIP Always), and BGP tells no router. info: the pool has such addresses in it, and no block yet; or natOutgoing is false otherwise. Disabled pools are left out otherwise; cluster IPs are known of services that there are, the range itself is not. skip: no pool is known.`,
		},
	})
}
