package cluster

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/probe"
)

// abandoned tells whether a pool gives out no more addresses, and nobody has any of
// it: disabling a pool leaves the blocks and pods that are there as they are. Another
// IPAM keeps no blocks, so there it is not known.
func abandoned(s *Snapshot, spec map[string]any, cidr netip.Prefix) bool {
	off, _ := spec["disabled"].(bool)
	return off && len(s.blocks) > 0 && !slices.ContainsFunc(s.blocks,
		func(b block) bool { return cidr.Contains(b.cidr.Addr()) })
}

// poolTargets are the IP pools whose addresses are in use, or may come into use.
func poolTargets(s *Snapshot) []probe.Target {
	var out []probe.Target
	for _, name := range slices.Sorted(maps.Keys(s.pools)) {
		spec := s.pools[name]
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
		if mode("vxlanMode") == "Never" {
			maps.Copy(t.Attrs, s.madeBy(mode("ipipMode") != "Never"))
		}
		if kept, _ := spec["disableBGPExport"].(bool); kept {
			t.Attrs[probe.AttrNoExport] = "true"
		}
		out = append(out, t)
	}
	return out
}

// tunnels are the annotations that name a node's addresses inside tunnels
// (libcalico-go, k8s/resources/node.go), and what belongs to each.
var tunnels = []struct {
	addr, device string
	outer        string // annotation of the address the tunnel ends at
	attr, extra  string // an attribute and the annotation it is from
}{
	{"IPv4IPIPTunnelAddr", "tunl0", annotationIPv4, "", ""},
	{"IPv4VXLANTunnelAddr", "vxlan.calico", annotationIPv4, probe.AttrMAC, "VXLANTunnelMACAddr"},
	{"IPv6VXLANTunnelAddr", "vxlan-v6.calico", annotationIPv6, probe.AttrMAC, "VXLANTunnelMACAddrV6"},
	{"IPv4WireguardInterfaceAddr", "wireguard.cali", annotationIPv4, probe.AttrKey, "WireguardPublicKey"},
	{"IPv6WireguardInterfaceAddr", "wg-v6.cali", annotationIPv6, probe.AttrKey, "WireguardPublicKeyV6"},
}

func tunnelTargets(s *Snapshot) []probe.Target {
	const prefix = "projectcalico.org/"
	var out []probe.Target
	for i := range s.Nodes {
		n := &s.Nodes[i]
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
			if n.Name == s.Node.Name {
				t.Attrs[probe.AttrOwn] = "true"
			}
			out = append(out, t)
		}
	}
	return out
}

// blockTargets are the blocks of nodes that have a registered address of the
// block's family: others are left over from nodes that are gone, and nobody can
// say where they should lead.
func blockTargets(s *Snapshot) []probe.Target {
	at := map[string][2]netip.Addr{}
	states := map[string]map[string]string{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		states[n.Name] = stateOf(n)
		v4, _ := registered(n, annotationIPv4)
		v6, _ := registered(n, annotationIPv6)
		at[n.Name] = [2]netip.Addr{v4.Addr(), v6.Addr()}
	}
	var out []probe.Target
	for _, b := range s.blocks {
		addr := at[b.node][0]
		if b.cidr.Addr().Is6() {
			addr = at[b.node][1]
		}
		t := probe.Target{Kind: probe.KindBlock, Name: b.cidr.String(), Node: b.node, Addr: addr, Attrs: states[b.node]}
		if b.node == s.Node.Name {
			t.Attrs = map[string]string{probe.AttrOwn: "true"}
		} else if !addr.IsValid() {
			continue
		}
		out = append(out, t)
	}
	return out
}
