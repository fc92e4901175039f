package cluster

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// abandoned reports whether a pool is disabled and its addresses are unused. Disabling a pool does not remove its
// blocks and pods. If the cluster uses another IPAM, there are no blocks, and this is unknown.
func abandoned(s *Snapshot, spec map[string]any, cidr netip.Prefix) bool {
	off, _ := spec["disabled"].(bool)
	return off && len(s.Blocks.Value.Owned) > 0 && !slices.ContainsFunc(s.Blocks.Value.Owned,
		func(b Block) bool { return cidr.Contains(b.CIDR.Addr()) })
}

// PoolTargets returns the IP pools with addresses that pods use or may get.
func PoolTargets(s *Snapshot) []probe.Target {
	var out []probe.Target
	for _, name := range slices.Sorted(maps.Keys(s.Pools.Value)) {
		spec := s.Pools.Value[name]
		text, _ := spec["cidr"].(string)
		cidr, err := netip.ParsePrefix(text)
		if err != nil || abandoned(s, spec, cidr) {
			continue
		}
		mode := func(key string) string {
			m, _ := spec[key].(string)
			return cmp.Or(m, "Never")
		}
		t := probe.Target{Kind: probe.KindPool, Name: text, Attrs: map[string]string{
			probe.AttrIPIP: mode("ipipMode"), probe.AttrVXLAN: mode("vxlanMode"),
		}}
		if off, _ := spec["disabled"].(bool); off {
			t.Attrs[probe.AttrDisabled] = "true"
		}
		if kept, _ := spec["disableBGPExport"].(bool); kept {
			t.Attrs[probe.AttrNoExport] = "true"
		}
		if mode("vxlanMode") == "Never" {
			maps.Copy(t.Attrs, s.MadeBy(mode("ipipMode") != "Never"))
		}
		out = append(out, t)
	}
	return out
}

// tunnels lists the annotations with a node's tunnel addresses (libcalico-go, k8s/resources/node.go) and related
// annotations.
var tunnels = []struct {
	addr, device string
	outer        string // annotation with the address of the tunnel's end
	attr, extra  string // an attribute and the annotation that holds it
}{
	{"IPv4IPIPTunnelAddr", "tunl0", AnnotationIPv4, "", ""},
	{"IPv4VXLANTunnelAddr", "vxlan.calico", AnnotationIPv4, probe.AttrMAC, "VXLANTunnelMACAddr"},
	{"IPv6VXLANTunnelAddr", "vxlan-v6.calico", AnnotationIPv6, probe.AttrMAC, "VXLANTunnelMACAddrV6"},
	{"IPv4WireguardInterfaceAddr", "wireguard.cali", AnnotationIPv4, probe.AttrKey, "WireguardPublicKey"},
	{"IPv6WireguardInterfaceAddr", "wg-v6.cali", AnnotationIPv6, probe.AttrKey, "WireguardPublicKeyV6"},
}

// tunnelTargets returns the ends of tunnels. It marks the node's own ends.
func tunnelTargets(s *Snapshot) []probe.Target {
	out := slices.Clone(s.Known().tunnels())
	for i, t := range out {
		if t.Node == s.Node.Name {
			out[i].Attrs = maps.Clone(t.Attrs)
			out[i].Attrs[probe.AttrOwn] = "true"
		}
	}
	return out
}

// tunnelsOf returns the ends of the tunnels of all nodes.
func tunnelsOf(nodes []corev1.Node) []probe.Target {
	const prefix = "projectcalico.org/"
	var out []probe.Target
	for i := range nodes {
		n := &nodes[i]
		for _, w := range tunnels {
			a, ok := addressOf(n.Annotations[prefix+w.addr])
			if !ok {
				continue
			}
			t := probe.Target{Kind: probe.KindTunnel, Name: n.Name, Node: n.Name, Addr: a,
				Attrs: map[string]string{probe.AttrDevice: w.device}}
			if outer, ok := registered(n, w.outer); ok {
				t.Attrs[probe.AttrOuter] = outer.Addr().String()
			}
			if v := n.Annotations[prefix+w.extra]; w.extra != "" && v != "" {
				t.Attrs[w.attr] = v
			}
			out = append(out, t)
		}
	}
	return out
}

// blockTargets returns the node's own blocks, and the blocks of nodes with a registered address of the block's family.
// Other blocks are left over from deleted nodes, and do not need routes.
func blockTargets(s *Snapshot) []probe.Target {
	all := s.Known().blocks()
	out := make([]probe.Target, 0, len(all))
	for _, t := range all {
		if t.Node == s.Node.Name {
			t.Attrs = map[string]string{probe.AttrOwn: "true"}
		} else if !t.Addr.IsValid() {
			continue
		}
		out = append(out, t)
	}
	return out
}

// blocksOf returns all blocks. Each has its node's registered address of the same family, if the node has one.
func blocksOf(s *Survey) []probe.Target {
	at := map[string][2]netip.Addr{}
	states := map[string]map[string]string{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		states[n.Name] = StateOf(n)
		v4, _ := registered(n, AnnotationIPv4)
		v6, _ := registered(n, AnnotationIPv6)
		at[n.Name] = [2]netip.Addr{v4.Addr(), v6.Addr()}
	}
	out := make([]probe.Target, 0, len(s.Blocks.Value.Owned))
	for _, b := range s.Blocks.Value.Owned {
		addr := at[b.Node][0]
		if b.CIDR.Addr().Is6() {
			addr = at[b.Node][1]
		}
		out = append(out, probe.Target{Kind: probe.KindBlock, Name: b.CIDR.String(), Node: b.Node, Addr: addr,
			Attrs: states[b.Node]})
	}
	return out
}
