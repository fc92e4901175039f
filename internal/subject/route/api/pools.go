package api

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// nodesWithin are the nodes with an address in a range, each with the address, this node first.
func nodesWithin(s *cluster.Snapshot, cidr netip.Prefix) []string {
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

// apiWithin are the API servers' addresses in a range that belong to no node.
func apiWithin(s *cluster.Snapshot, cidr netip.Prefix) []string {
	var out []string
	for _, t := range s.API.Value {
		one := netip.PrefixFrom(t.Addr, t.Addr.BitLen())
		if t.Name == "endpoint" && cidr.Contains(t.Addr) && len(nodesWithin(s, one)) == 0 {
			out = append(out, t.Addr.String())
		}
	}
	return out
}

// servicesWithin are the Services with a cluster IP in a range.
func servicesWithin(s *cluster.Snapshot, cidr netip.Prefix) []string {
	var out []string
	for i := range s.AllServices.Value {
		svc := &s.AllServices.Value[i]
		for _, ip := range svc.Spec.ClusterIPs {
			if addr, err := netip.ParseAddr(ip); err == nil && cidr.Contains(addr) {
				out = append(out, svc.Namespace+"/"+svc.Name+" "+ip)
			}
		}
	}
	return out
}

// blockWith is a block of a pool that contains another object's address, and that object. Each node sends packets for
// that address to the block's owner.
func blockWith(s *cluster.Snapshot, cidr netip.Prefix, within func(*cluster.Snapshot, netip.Prefix) []string) string {
	for _, b := range s.Blocks.Value.Owned {
		if !cidr.Contains(b.CIDR.Addr()) {
			continue
		}
		if in := within(s, b.CIDR); len(in) > 0 {
			return fmt.Sprintf("block %s of node %s contains the address of %s", b.CIDR, b.Node, in[0])
		}
	}
	return ""
}

// isAdvertisedOutside reports whether BGP advertises this node's pods to a router outside the cluster. It is true if
// that is unknown.
func isAdvertisedOutside(s *cluster.Snapshot) bool {
	switch {
	case s.Peering.Unread() != nil:
		return true
	case s.Backend.Value == "vxlan" || s.Backend.Value == "none":
		return false
	}
	l := &cluster.Sessions{Own: cluster.SpeakerOf(s.Node, s.Peering, s.Peering.GlobalAS())}
	peers, err := s.Known().Peers()
	l.AddPeers(peers, func(n cluster.Speaker) bool { return n.Node.Name == s.Node.Name })
	return err != nil || slices.ContainsFunc(l.Targets, func(t probe.Target) bool { return t.Node == "" })
}

// apiOutside reports whether an API server surely has an address that belongs to no node and no pod.
func apiOutside(s *cluster.Snapshot) bool {
	all := slices.DeleteFunc(slices.Clone(s.API.Value), func(t probe.Target) bool { return t.Name != "endpoint" })
	return len(all) > 0 && !slices.ContainsFunc(all, func(t probe.Target) bool {
		one := netip.PrefixFrom(t.Addr, t.Addr.BitLen())
		inPool := func(spec map[string]any) bool {
			cidr, ok := cluster.CIDROf(spec)
			return !ok || cidr.Contains(t.Addr)
		}
		return len(nodesWithin(s, one)) > 0 || slices.ContainsFunc(slices.Collect(maps.Values(s.Pools.Value)), inPool)
	})
}

// ipPools reports IP pools that overlap other ranges, and pools without NAT for packets that leave the cluster.
func ipPools(s *cluster.Snapshot, report func(probe.Result)) {
	if s.Pools.Err != nil {
		report(apicheck.UnreadOf("the pools are", s.Pools.Err))
		return
	}
	found, unseen := false, errors.Join(s.Blocks.Err, s.Services.Err, s.API.Err) // what could overlap is not all known
	for _, name := range slices.Sorted(maps.Keys(s.Pools.Value)) {
		spec := s.Pools.Value[name]
		cidr, ok := cluster.CIDROf(spec)
		off, _ := spec["disabled"].(bool)
		if !ok || off && len(apiWithin(s, cidr)) == 0 {
			continue
		}
		found = true
		r := judgePool(s, cidr, spec)
		if apicheck.Failed(unseen) && (r.Status == probe.OK || r.Status == probe.Info) {
			r = apicheck.Unread(unseen)
		}
		family := map[bool]int{true: 4, false: 6}[cidr.Addr().Is4()]
		report(r.On(name).With(facts.Pools, []string{name + " (" + cidr.String() + ")"}).With(probe.FactFamily, family))
	}
	if !found {
		report(probe.Found(probe.Skip, "no enabled Calico IP pool found"))
	}
}

// isTunnelled reports whether a pool's packets are always encapsulated between nodes.
func isTunnelled(spec map[string]any) bool {
	return spec["vxlanMode"] == "Always" || spec["ipipMode"] == "Always"
}

func judgePool(s *cluster.Snapshot, cidr netip.Prefix, spec map[string]any) probe.Result {
	if block := blockWith(s, cidr, nodesWithin); block != "" && len(s.Nodes) > 1 {
		return probe.Found(probe.Fail, "%s: %s", cidr, block).With(probe.FactReason, facts.PoolHasNodes)
	}
	if block := blockWith(s, cidr, servicesWithin); block != "" {
		return probe.Found(probe.Fail, "%s: %s", cidr, block).With(probe.FactReason, facts.PoolHasServices)
	}
	if api := apiWithin(s, cidr); len(api) > 0 {
		return probe.Found(probe.Warn, "%s contains the API server's address (%s): pods reach it with their own "+
			"addresses, because Calico masquerades only traffic that leaves all pools, including disabled ones", cidr, cluster.Few(api)).
			With(probe.FactReason, facts.PoolHasAPI)
	}
	if kept, _ := spec["disableBGPExport"].(bool); kept && spec["vxlanMode"] != "Always" && cluster.ByBIRD(s) {
		return probe.Found(probe.Warn, "%s: BGP does not advertise its blocks (disableBGPExport)", cidr).
			With(probe.FactReason, facts.PoolUnexported)
	}
	if services := servicesWithin(s, cidr); len(services) > 0 {
		return probe.Found(probe.Info, "%s contains cluster IPs of Services: %s", cidr, cluster.Few(services)).
			With(probe.FactReason, facts.PoolHasServices)
	}
	if nodes := nodesWithin(s, cidr); len(nodes) > 0 {
		return probe.Found(probe.Info, "%s contains addresses of nodes: %s", cidr, cluster.Few(nodes)).
			With(probe.FactReason, facts.PoolHasNodes)
	}
	nat, _ := spec["natOutgoing"].(bool)
	if _, here := cluster.PoolFor(s.Node, spec); nat || !here {
		return probe.Found(probe.OK, "%s does not overlap any node or Service", cidr)
	}
	advertised := isAdvertisedOutside(s)
	r := probe.Found(probe.Info, "%s: its pods keep their addresses outside the cluster (natOutgoing: false)", cidr)
	if !advertised {
		r.Saw += ", and BGP advertises them to no router there"
		if isTunnelled(spec) { // a network that has routes to the pods would not need a tunnel
			r.Status = probe.Warn
		}
	}
	return r.With(probe.FactReason, facts.PoolUnmasked).With(facts.AdvertisedOutside, advertised).
		With(facts.APIOutside, apiOutside(s))
}
