package cluster

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// ipPools judges the pools in use by whose addresses they have.
func ipPools(s *Snapshot, report func(probe.Result)) {
	switch err := cmp.Or(s.poolErr, s.blockErr); {
	case err != nil && err.Error() == probe.GapEtcd:
		report(probe.Found(probe.Skip, "not known: %v", err))
		return
	case err != nil:
		report(unread(err))
		return
	case len(s.blocks) == 0:
		report(probe.Found(probe.Skip, "Calico's IPAM has no block here: pods get their addresses elsewhere"))
		return
	}
	for _, pool := range poolTargets(s) {
		report(onePool(s, pool).On(pool.Name))
	}
}

// onePool judges one pool, by its target.
func onePool(s *Snapshot, pool probe.Target) probe.Result {
	cidr := netip.MustParsePrefix(pool.Name) // it was parsed to make the target
	nat := natOutgoing(s, pool.Name)
	if nodes := nodesIn(s, cidr); len(nodes) > 0 {
		return probe.Found(probe.Warn, "the pool %s has the addresses of %d of %d nodes in it: %s", cidr, len(nodes), len(s.Nodes),
			few(nodes)).With(facts.PoolOverlaps, facts.OverlapsNodes).With(facts.PoolNAT, nat)
	}
	if services := servicesIn(s, cidr); len(services) > 0 {
		return probe.Found(probe.Warn, "the pool %s has the addresses of %d Services in it: %s", cidr, len(services),
			few(services)).With(facts.PoolOverlaps, facts.OverlapsServices).With(facts.PoolNAT, nat)
	}
	if !nat {
		return probe.Found(probe.Info, "natOutgoing is off: packets of the pods of %s leave with the pods' own addresses, so what is outside of the pools has to know the way back",
			cidr).With(facts.PoolNAT, false)
	}
	return probe.Found(probe.OK, "no node and no Service has an address of %s, and packets of its pods leave with the node's address", cidr).
		With(facts.PoolNAT, true)
}

// natOutgoing tells whether packets of a pool's pods get the node's address on their way out of the pools.
func natOutgoing(s *Snapshot, cidr string) bool {
	for _, spec := range s.pools {
		if text, _ := spec["cidr"].(string); text == cidr {
			on, _ := spec["natOutgoing"].(bool)
			return on
		}
	}
	return false
}

// nodesIn are the nodes with an InternalIP in a range, as "NAME ADDRESS".
func nodesIn(s *Snapshot, cidr netip.Prefix) (out []string) {
	for i := range s.Nodes {
		for _, a := range InternalIPs(&s.Nodes[i]) {
			if cidr.Contains(a) {
				out = append(out, fmt.Sprintf("%s %s", s.Nodes[i].Name, a))
			}
		}
	}
	return out
}

// servicesIn are the Services with an address in a range, as "NAMESPACE/NAME ADDRESS".
func servicesIn(s *Snapshot, cidr netip.Prefix) (out []string) {
	for _, service := range s.allServices {
		for _, text := range service.Spec.ClusterIPs {
			if a, err := netip.ParseAddr(text); err == nil && cidr.Contains(a) {
				out = append(out, fmt.Sprintf("%s/%s %s", service.Namespace, service.Name, a))
			}
		}
	}
	return out
}
