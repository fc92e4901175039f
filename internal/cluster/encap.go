package cluster

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// Opposite returns a node for a tunnel test. It uses the preferred node only if that node is as healthy as a baseline
// node, because another node may have supplied the name. Otherwise it uses the first sampled node. Ready nodes come
// first in the sample. It returns nil if there is no other node.
func Opposite(s *Snapshot, preferred string) *corev1.Node {
	for i, n := range s.Nodes {
		if n.Name == preferred && n.Name != s.Node.Name && fitToCompare(&n) {
			return &s.Nodes[i]
		}
	}
	if p := peers(s, 1); len(p) > 0 {
		return &p[0]
	}
	return nil
}

// Self returns the addresses that Calico registered for a node, for a probe on that node.
func Self(n *corev1.Node) []probe.Target {
	var out []probe.Target
	for _, key := range []string{AnnotationIPv4, AnnotationIPv6} {
		if p, ok := registered(n, key); ok {
			out = append(out, probe.Target{Kind: probe.KindSelf, Name: n.Name, Node: n.Name, Addr: p.Addr()})
		}
	}
	return out
}

// Defaults of Felix (felix/config).
const (
	PortVXLAN      = 4789
	portWireGuard  = 51820
	portWireGuard6 = 51821
)

// EncapTargets returns the kinds of packet that may pass from one node to another node's registered addresses, for a
// probe in the given role. The attribute Used marks the kinds that this cluster sends between the two nodes.
func EncapTargets(s *Snapshot, from, to *corev1.Node, role, token string) []probe.Target {
	settings := FelixTarget(s).Attrs
	number := func(name string, otherwise int) int {
		n, _ := strconv.Atoi(settings[name])
		return cmp.Or(n, otherwise)
	}
	// If a kind could not be read, it is not marked as used.
	sessions, _ := SessionTargets(s, from)
	var out []probe.Target
	for _, key := range []string{AnnotationIPv4, AnnotationIPv6} {
		mine, ok := registered(from, key)
		theirs, ok6 := registered(to, key)
		if !ok || !ok6 {
			continue
		}
		v6 := key == AnnotationIPv6
		add := func(name string, port int, used bool) {
			out = append(out, probe.Target{Kind: probe.KindEncap, Name: name, Node: to.Name, Addr: theirs.Addr(), Port: port,
				Attrs: map[string]string{
					probe.AttrRole: role, probe.AttrToken: token, probe.AttrUsed: strconv.FormatBool(used),
				}})
		}
		bpf := settings["bpfEnabled"] == "true"
		add("VXLAN", number("vxlanPort", PortVXLAN), bpf || encapsulates(s, "vxlanMode", mine, theirs))
		if v6 {
			add("WireGuard", number("wireguardListeningPortV6", portWireGuard6), settings["wireguardEnabledV6"] == "true")
		} else {
			add("WireGuard", number("wireguardListeningPort", portWireGuard), settings["wireguardEnabled"] == "true")
			add("IPIP", 0, encapsulates(s, "ipipMode", mine, theirs))
		}
		if role == probe.RoleSend {
			port, used := cmp.Or(s.Peering.Port(to), DefaultBGPPort), false
			if i := slices.IndexFunc(sessions, func(t probe.Target) bool { return t.Addr == theirs.Addr() }); i >= 0 {
				port, used = sessions[i].Port, s.Backend.Value == "bird"
			}
			add("BGP", port, used)
		}
	}
	return out
}

// encapsulates reports whether a pool of this address family tunnels packets between two nodes, either always or
// because the nodes' subnets differ.
func encapsulates(s *Snapshot, mode string, mine, theirs netip.Prefix) bool {
	for _, spec := range s.Pools.Value {
		cidr, _ := spec["cidr"].(string)
		p, err := netip.ParsePrefix(cidr)
		if err != nil || abandoned(s, spec, p) || p.Addr().Is6() != mine.Addr().Is6() {
			continue
		}
		switch spec[mode] {
		case "Always":
			return true
		case "CrossSubnet":
			if !mine.Contains(theirs.Addr()) {
				return true
			}
		}
	}
	return false
}
