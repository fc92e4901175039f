package cluster

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// nodesWithin are the nodes that have an address in a range, each with it, the node in question first.
func nodesWithin(s *Snapshot, cidr netip.Prefix) []string {
	var out []string
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for _, a := range n.Status.Addresses {
			addr, err := netip.ParseAddr(a.Address)
			if err != nil || a.Type != corev1.NodeInternalIP || !cidr.Contains(addr) {
				continue
			}
			if text := n.Name + " " + a.Address; n.Name == s.Node.Name {
				out = append([]string{text}, out...)
			} else {
				out = append(out, text)
			}
		}
	}
	return out
}

// apiWithin are the addresses of API servers in a range that are no nodes'.
func apiWithin(s *Snapshot, cidr netip.Prefix) []string {
	var out []string
	for _, t := range s.api.Value {
		one := netip.PrefixFrom(t.Addr, t.Addr.BitLen())
		if t.Name == "endpoint" && cidr.Contains(t.Addr) && len(nodesWithin(s, one)) == 0 {
			out = append(out, t.Addr.String())
		}
	}
	return out
}

// servicesWithin are the services that have a cluster IP in a range.
func servicesWithin(s *Snapshot, cidr netip.Prefix) []string {
	var out []string
	for i := range s.allServices.Value {
		svc := &s.allServices.Value[i]
		for _, ip := range svc.Spec.ClusterIPs {
			if addr, err := netip.ParseAddr(ip); err == nil && cidr.Contains(addr) {
				out = append(out, svc.Namespace+"/"+svc.Name+" "+ip)
			}
		}
	}
	return out
}

// blockWith is a block of a pool in which something else's address is, and what that is. Each node sends what
// is meant for that address to the block's owner.
func blockWith(s *Snapshot, cidr netip.Prefix, within func(*Snapshot, netip.Prefix) []string) string {
	for _, b := range s.blocks.Value.owned {
		if !cidr.Contains(b.cidr.Addr()) {
			continue
		}
		if in := within(s, b.cidr); len(in) > 0 {
			return fmt.Sprintf("block %s of node %s has the address of %s in it", b.cidr, b.node, in[0])
		}
	}
	return ""
}

// toldOutside tells whether BGP tells a router that is no node of this node's pods. Where that is not known,
// it may.
func toldOutside(s *Snapshot) bool {
	switch {
	case s.peering.unread() != nil:
		return true
	case s.backend.Value == "vxlan" || s.backend.Value == "none":
		return false
	}
	l := &sessions{own: speakerOf(s.Node, s.peering, s.peering.globalAS())}
	peers, err := s.known().peers()
	l.addPeers(peers, func(n speaker) bool { return n.node.Name == s.Node.Name })
	return err != nil || slices.ContainsFunc(l.targets, func(t probe.Target) bool { return t.Node == "" })
}

// apiOutside tells whether an API server surely has an address that is neither a node's nor a pod's.
func apiOutside(s *Snapshot) bool {
	all := slices.DeleteFunc(slices.Clone(s.api.Value), func(t probe.Target) bool { return t.Name != "endpoint" })
	return len(all) > 0 && !slices.ContainsFunc(all, func(t probe.Target) bool {
		one := netip.PrefixFrom(t.Addr, t.Addr.BitLen())
		inPool := func(spec map[string]any) bool {
			cidr, ok := cidrOf(spec)
			return !ok || cidr.Contains(t.Addr)
		}
		return len(nodesWithin(s, one)) > 0 || slices.ContainsFunc(slices.Collect(maps.Values(s.pools.Value)), inPool)
	})
}

// ipPools says what of the IP pools collides with other ranges, and whose packets keep their address outside.
func ipPools(s *Snapshot, report func(probe.Result)) {
	if s.pools.Err != nil {
		report(unreadOf("the pools are", s.pools.Err))
		return
	}
	found, unseen := false, errors.Join(s.blocks.Err, s.services.Err, s.api.Err) // what a pool may overlap with
	for _, name := range slices.Sorted(maps.Keys(s.pools.Value)) {
		spec := s.pools.Value[name]
		cidr, ok := cidrOf(spec)
		off, _ := spec["disabled"].(bool)
		if !ok || off && len(apiWithin(s, cidr)) == 0 {
			continue
		}
		found = true
		r := onePool(s, cidr, spec)
		if failed(unseen) && (r.Status == probe.OK || r.Status == probe.Info) {
			r = unread(unseen)
		}
		report(r.On(name).With(facts.Pools, []string{name + " (" + cidr.String() + ")"}))
	}
	if !found {
		report(probe.Found(probe.Skip, "no enabled IP pool of Calico's is known"))
	}
}

// tunnelled tells whether a pool's packets are always in a tunnel between nodes.
func tunnelled(spec map[string]any) bool {
	return spec["vxlanMode"] == "Always" || spec["ipipMode"] == "Always"
}

func onePool(s *Snapshot, cidr netip.Prefix, spec map[string]any) probe.Result {
	if block := blockWith(s, cidr, nodesWithin); block != "" && len(s.Nodes) > 1 {
		return probe.Found(probe.Fail, "%s: %s", cidr, block).With(probe.FactReason, facts.PoolHasNodes)
	}
	if block := blockWith(s, cidr, servicesWithin); block != "" {
		return probe.Found(probe.Fail, "%s: %s", cidr, block).With(probe.FactReason, facts.PoolHasServices)
	}
	if api := apiWithin(s, cidr); len(api) > 0 {
		return probe.Found(probe.Warn, "%s has the address of the API server in it (%s): what pods send there keeps their own "+
			"addresses, for Calico masquerades only what leaves every pool, disabled ones too", cidr, few(api)).
			With(probe.FactReason, facts.PoolHasAPI)
	}
	if kept, _ := spec["disableBGPExport"].(bool); kept && spec["vxlanMode"] != "Always" && byBIRD(s) {
		return probe.Found(probe.Warn, "%s: BGP tells nobody on which nodes its pods are (disableBGPExport)", cidr).
			With(probe.FactReason, facts.PoolUnexported)
	}
	if services := servicesWithin(s, cidr); len(services) > 0 {
		return probe.Found(probe.Info, "%s has cluster IPs of services in it: %s", cidr, few(services)).
			With(probe.FactReason, facts.PoolHasServices)
	}
	if nodes := nodesWithin(s, cidr); len(nodes) > 0 {
		return probe.Found(probe.Info, "%s has addresses of nodes in it: %s", cidr, few(nodes)).
			With(probe.FactReason, facts.PoolHasNodes)
	}
	nat, _ := spec["natOutgoing"].(bool)
	if _, here := poolFor(s.Node, spec); nat || !here {
		return probe.Found(probe.OK, "%s overlaps with no node and no service", cidr)
	}
	told := toldOutside(s)
	r := probe.Found(probe.Info, "%s: its pods keep their addresses outside of the cluster (natOutgoing false)", cidr)
	if !told {
		r.Saw += ", and BGP tells no router there where they are"
		if tunnelled(spec) { // a network that knew the pods would need none
			r.Status = probe.Warn
		}
	}
	return r.With(probe.FactReason, facts.PoolUnmasked).With(facts.ToldOutside, told).With(facts.APIOutside, apiOutside(s))
}
