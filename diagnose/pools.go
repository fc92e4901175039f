package diagnose

import (
	"fmt"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// poolRules are those of the ranges that pods get their addresses from.
func poolRules() []*Rule { return []*Rule{poolOverlaps, podsNotMasqueraded} }

// showPools prints the pools.
const showPools = "kubectl get ippools.crd.projectcalico.org -o custom-columns=NAME:.metadata.name,CIDR:.spec.cidr,NAT:.spec.natOutgoing,OFF:.spec.disabled"

// poolOverlaps is projectcalico/calico#1401.
var poolOverlaps = &Rule{
	ID: "pool-overlaps", Layer: LayerRoutes, Title: "an IP pool has the addresses of nodes or Services in it",
	Doc: `Packets of pods to an address of any pool keep the pod's own address, for Calico takes the receiver for a pod. Where the nodes' network lies in a pool, its routers, name servers and other machines get packets from addresses that they know no way back to; IPAM may give a pod the address of a machine; and a block that holds a node's address takes the routes to that node. Where Services do, kube-proxy and Calico disagree about what is a pod.
Told from a pool that merely looks like the nodes' network by the addresses themselves.`,
	Fix: probe.Fix{
		Says:     "Make a pool with a range that nothing else uses, disable the old one, and make the pods anew; the range is the cluster's (--cluster-cidr) too.",
		Manifest: []string{showPools, "kubectl get nodes -o wide", "kubectl get pods -A -o wide --field-selector spec.nodeName={node}"},
		Radius:   "reading changes nothing. A pool's range cannot be changed; moving to another one restarts every pod that has an address of the old",
	},
	Explains: []string{"dns-no-upstream"},
	Match: func(f Findings) []Case {
		var out []Case
		for _, r := range f.Bad(facts.CheckPools) {
			if r.Facts.Str(facts.PoolOverlaps) == "" {
				continue
			}
			out = append(out, Case{About: r.Target, Says: r.Saw, For: append(clues(strong, []Finding{r}),
				clues(0, outsideLost(f))...), Covers: Covers(facts.CheckPools)})
		}
		return out
	},
}

// outsideLost are the answers of pods' packets to what is no pod that did not come back.
func outsideLost(f Findings) []Finding {
	return keep(toService(f.Bad(checks.DNSExternal.ID)), func(r Finding) bool {
		return r.Facts.Str(checks.FactQuestion) == "."
	})
}

// podsNotMasqueraded is projectcalico/calico#2419.
var podsNotMasqueraded = &Rule{
	ID: "pods-not-masqueraded", Layer: LayerRoutes, Title: "packets of pods leave for the outside with addresses that nobody there knows",
	Doc: `A pool with natOutgoing gives packets that leave the pools the node's address. Without it they keep the pod's: right where the network's routers learn the pods' addresses by BGP or have routes for them, and elsewhere the answers do not come back. Pods then reach each other and nothing outside; the cluster's DNS, a pod too, resolves no outside name, and the node itself does.
Told from a resolver that is down by the node's own servers, which answer the node.`,
	Fix: probe.Fix{
		Says:     "Turn natOutgoing on for the pool, unless routers outside are meant to know its addresses; then see why they do not.",
		Manifest: []string{showPools, "kubectl get bgppeers.crd.projectcalico.org  # routers that learn the pods' addresses"},
		OnlyIf: []probe.Conditional{{If: "nothing outside is meant to know the pods' addresses",
			Manifest: []string{`kubectl patch ippools.crd.projectcalico.org POOL --type merge -p '{"spec":{"natOutgoing":true}}'  # its name, as shown above`},
			Operator: []string{"kubectl edit installation default  # natOutgoing: Enabled, of that pool below spec.calicoNetwork.ipPools"}}},
		Radius: "reading changes nothing; the switch takes effect on every node within seconds, and new connections of pods to the outside come from the nodes' addresses",
	},
	RuledOut: []string{checks.DNSCluster.ID},
	Explains: []string{"dns-no-upstream"},
	Match: func(f Findings) []Case {
		off := keep(f.Of(facts.CheckPools), func(r Finding) bool {
			nat, has := r.Facts[facts.PoolNAT].(bool)
			return has && !nat && r.Facts.Str(facts.PoolOverlaps) == ""
		})
		lost := outsideLost(f)
		if len(off) == 0 || len(lost) == 0 {
			return nil
		}
		return []Case{{About: off[0].Target, For: append(clues(strong, off[:1]), clues(0, lost)...),
			Says:   fmt.Sprintf("natOutgoing is off for the pool %s, and what its pods ask outside gets no answer", off[0].Target),
			Covers: Covers(checks.DNSExternal.ID)}}
	},
}
